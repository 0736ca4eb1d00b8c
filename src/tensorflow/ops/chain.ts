/** Chaining: `x.matMul(w).add(b)`. Importing this file adds the methods to Output. */
import { Output } from '../graph/operation.js';
import type { DType } from '../tensor/dtype.js';
import type { Shape } from '../tensor/shape.js';
import * as arrays from './arrays.js';
import type { Operand } from './build.js';
import * as math from './math.js';
import * as nn from './nn.js';

const UNARY = {
  neg: math.neg,
  abs: math.abs,
  sign: math.sign,
  square: math.square,
  sqrt: math.sqrt,
  rsqrt: math.rsqrt,
  reciprocal: math.reciprocal,
  exp: math.exp,
  log: math.log,
  log1p: math.log1p,
  sin: math.sin,
  cos: math.cos,
  tanh: math.tanh,
  floor: math.floor,
  ceil: math.ceil,
  round: math.round,
  relu: nn.relu,
  sigmoid: nn.sigmoid,
  logicalNot: math.logicalNot,
  stopGradient: arrays.stopGradient,
  identity: arrays.identity,
  flatten: arrays.flatten,
} as const;

const BINARY = {
  add: math.add,
  sub: math.sub,
  mul: math.mul,
  div: math.div,
  floorDiv: math.floorDiv,
  mod: math.mod,
  pow: math.pow,
  maximum: math.maximum,
  minimum: math.minimum,
  squaredDifference: math.squaredDifference,
  equal: math.equal,
  notEqual: math.notEqual,
  greater: math.greater,
  greaterEqual: math.greaterEqual,
  less: math.less,
  lessEqual: math.lessEqual,
  logicalAnd: math.logicalAnd,
  logicalOr: math.logicalOr,
} as const;

const REDUCTIONS = {
  sum: math.sum,
  mean: math.mean,
  prod: math.prod,
  max: math.max,
  min: math.min,
  all: math.all,
  any: math.any,
};

const OTHERS = {
  matMul: math.matMul,
  cast: math.cast,
  clipByValue: math.clipByValue,
  argMax: math.argMax,
  softmax: nn.softmax,
  logSoftmax: nn.logSoftmax,
  reshape: arrays.reshape,
  transpose: arrays.transpose,
  expandDims: arrays.expandDims,
  squeeze: arrays.squeeze,
  gather: arrays.gather,
  slice: arrays.slice,
  tile: arrays.tile,
} as const;

export type UnaryMethods = { [K in keyof typeof UNARY]: () => Output };
export type BinaryMethods = { [K in keyof typeof BINARY]: (other: Operand) => Output };
export type ReductionMethods = {
  [K in keyof typeof REDUCTIONS]: (axis?: number | readonly number[], keepDims?: boolean) => Output;
};

export interface ChainMethods extends UnaryMethods, BinaryMethods, ReductionMethods {
  matMul(other: Operand, options?: math.MatMulOptions): Output;
  cast<D extends DType>(dtype: D): Output<D>;
  clipByValue(low: Operand, high: Operand): Output;
  argMax(axis?: number, dtype?: 'int32' | 'int64'): Output;
  softmax(axis?: number): Output;
  logSoftmax(axis?: number): Output;
  reshape(shape: Shape | Operand): Output;
  transpose(permutation?: readonly number[]): Output;
  expandDims(axis: number): Output;
  squeeze(axis?: readonly number[]): Output;
  gather(indices: Operand, options?: arrays.GatherOptions): Output;
  slice(begin: readonly number[], size: readonly number[]): Output;
  tile(reps: readonly number[]): Output;
}

declare module '../graph/operation.js' {
  interface Output<D extends DType = DType> extends ChainMethods {}
}

type AnyFunction = (...args: unknown[]) => unknown;

/** Adds the chain methods that a class does not define itself; its instances must be operands. */
export function installChain(prototype: object): void {
  const define = (name: string, method: AnyFunction) => {
    if (Object.hasOwn(prototype, name)) return;
    Object.defineProperty(prototype, name, { value: method, writable: true, configurable: true });
  };
  for (const [name, f] of Object.entries({ ...UNARY, ...BINARY, ...OTHERS })) {
    define(name, function (this: unknown, ...args: unknown[]) {
      return (f as AnyFunction)(this, ...args);
    });
  }
  for (const [name, f] of Object.entries(REDUCTIONS)) {
    define(name, function (this: unknown, axis?: unknown, keepDims = false) {
      return (f as AnyFunction)(this, { axis, keepDims });
    });
  }
}

installChain(Output.prototype);
