/** Encodes tensors for Python and compares them with Python's. */
import { fromBinary } from '@bufbuild/protobuf';
import { signatureOf } from '../../codegen/op-signature.js';
import { readOpNames } from '../../codegen/ops.js';
import { type OpDef, OpListSchema } from '../../src/base/proto/generated/graph_pb.js';
import type { Output } from '../../src/tensorflow/graph/operation.js';
import { allOps } from '../../src/tensorflow/native/buffer.js';
import * as raw from '../../src/tensorflow/ops/generated/index.js';
import { type DType, isComplex, isFloating } from '../../src/tensorflow/tensor/dtype.js';
import { bfloat16ToNumber, halfToNumber } from '../../src/tensorflow/tensor/half.js';
import type { Tensor } from '../../src/tensorflow/tensor/tensor.js';
import type { OpCase } from './case.js';

export interface WireTensor {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly data: string | readonly string[];
}

export function toWire(tensor: Tensor): WireTensor {
  const { dtype, shape } = tensor;
  if (dtype === 'string') {
    return { dtype, shape, data: tensor.bytes().map((bytes) => Buffer.from(bytes).toString('base64')) };
  }
  const { buffer, byteOffset, byteLength } = tensor.data;
  return {
    dtype,
    shape,
    data: Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength).toString('base64'),
  };
}

export function questionOf({ op, inputs, attrs }: OpCase): unknown {
  const wire = (input: OpCase['inputs'][number]) =>
    Array.isArray(input) ? input.map(toWire) : toWire(input as Tensor);
  const plain = (value: unknown): unknown => (typeof value === 'bigint' ? Number(value) : value);
  return {
    op,
    inputs: inputs.map(wire),
    attrs: Object.fromEntries(Object.entries(attrs).map(([name, value]) => [name, plain(value)])),
  };
}

type Wrapper = (...args: unknown[]) => unknown;

let definitions: Map<string, OpDef> | undefined;

/** Calls the generated function of an op with its attribute names. */
export function callWrapper({ op, inputs, attrs }: OpCase): Output[] {
  definitions ??= new Map(fromBinary(OpListSchema, allOps()).op.map((def) => [def.name, def]));
  const def = definitions.get(op);
  if (!def) throw new Error(`the library has no op ${op}`);
  const signature = signatureOf(def, readOpNames());
  const named = Object.entries(attrs).map(([tfName, value]) => {
    const attr = signature.attrs.find((candidate) => candidate.tfName === tfName);
    if (!attr) throw new Error(`the wrapper of ${op} has no attribute ${tfName}`);
    return [attr.name, value];
  });
  const wrapper = (raw as unknown as Record<string, Wrapper>)[signature.name] as Wrapper;
  return outputsOf(wrapper(...inputs, Object.fromEntries(named)));
}

function outputsOf(result: unknown): Output[] {
  if (Array.isArray(result)) return result.flatMap(outputsOf);
  if (typeof (result as Partial<Output>).toOutput === 'function') return [result as Output];
  return Object.values(result as object).flatMap(outputsOf);
}

const EXACTNESS: Partial<Record<DType, number>> = {
  float64: 1e-9,
  complex128: 1e-9,
  float16: 4e-3,
  bfloat16: 3e-2,
};
const USUAL_EXACTNESS = 2e-5;

/** Describes the difference; undefined if there is none. */
export function difference(ours: Tensor, theirs: WireTensor, tolerance?: number): string | undefined {
  if (ours.dtype !== theirs.dtype) return `is ${ours.dtype}, should be ${theirs.dtype}`;
  if (ours.shape.join() !== theirs.shape.join())
    return `has shape [${ours.shape}], should have [${theirs.shape}]`;
  const wire = toWire(ours);
  if (JSON.stringify(wire.data) === JSON.stringify(theirs.data)) return undefined;
  if (!isFloating(ours.dtype) && !isComplex(ours.dtype))
    return `is ${show(ours)}, bytes differ from Python's`;
  const bound = tolerance ?? EXACTNESS[ours.dtype] ?? USUAL_EXACTNESS;
  const expected = numbers(theirs);
  const got = numbers(wire);
  const at = expected.findIndex((value, i) => !isClose(got[i] as number, value, bound));
  return at < 0 ? undefined : `has ${got[at]} at ${at}, should have ${expected[at]}`;
}

function isClose(got: number, expected: number, bound: number): boolean {
  if (Object.is(got, expected) || got === expected) return true;
  return Math.abs(got - expected) <= bound * Math.max(1, Math.abs(expected));
}

const show = (tensor: Tensor): string =>
  JSON.stringify(tensor.toArray(), (_, value) => (typeof value === 'bigint' ? `${value}n` : value));

function numbers({ dtype, data }: WireTensor): number[] {
  const { buffer } = Uint8Array.from(Buffer.from(data as string, 'base64'));
  if (dtype === 'float64' || dtype === 'complex128') return [...new Float64Array(buffer)];
  if (dtype === 'float32' || dtype === 'complex64') return [...new Float32Array(buffer)];
  const words = new Uint16Array(buffer);
  return Array.from(words, dtype === 'float16' ? halfToNumber : bfloat16ToNumber);
}
