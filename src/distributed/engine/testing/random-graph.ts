/** Random graphs over several tasks, with a defined result: accesses to one variable are ordered by control edges. */
import { Graph } from '../../../tensorflow/graph/graph.js';
import type { Operation, Output } from '../../../tensorflow/graph/operation.js';
import * as raw from '../../../tensorflow/ops/generated/index.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';

export interface RandomGraph {
  readonly graph: Graph;
  readonly fetches: Output[];
  readonly targets: Operation[];
  readonly feeds: [Output, Tensor][];
  /** Gives the variables their first values. */
  readonly init: Operation[];
  /** The values of all variables afterwards. */
  readonly reads: Output[];
}

/** A small generator of random numbers, so that a failing seed can be repeated. */
export function randomNumbers(seed: number): (below: number) => number {
  let state = seed >>> 0 || 1;
  return (below) => {
    state ^= state << 13;
    state >>>= 0;
    state ^= state >>> 17;
    state ^= state << 5;
    state >>>= 0;
    return state % below;
  };
}

/**
 * `tasks` devices; '' for an op without a device. `scope` keeps the variables of different graphs apart. All tensors are
 * vectors of `size` elements.
 */
export function randomGraph(seed: number, devices: readonly string[], scope: string, size = 2): RandomGraph {
  const random = randomNumbers(seed * 7919 + 1);
  const pick = <T>(items: readonly T[]): T => items[random(items.length)] as T;
  const graph = new Graph();
  return graph.asDefault(() => {
    const values: Output[] = [];
    const feeds: [Output, Tensor][] = [];
    const init: Operation[] = [];
    const all: Operation[] = [];
    const variables = Array.from({ length: 1 + random(4) }, (_, at) => {
      const name = `${scope}/v${at}`;
      const device = pick(devices);
      const handle = graph.device(device, () =>
        raw.varHandleOp({ dtype: 'float32', shape: [size], sharedName: name, name }),
      );
      const assign = graph.device(device, () =>
        raw.assignVariableOp(handle, constant(graph, [at + 1, -at], size)),
      );
      init.push(assign);
      return { handle, device, writes: [] as Operation[], reads: [] as Operation[] };
    });
    const on = <T>(body: () => T): T => {
      const device = pick([...devices, '']);
      return device === '' ? body() : graph.device(device, body);
    };
    const operand = () =>
      values.length > 0 && random(5) > 0 ? pick(values) : constant(graph, [random(9) / 4, 0.5], size);
    const count = 8 + random(30);
    for (let i = 0; i < count; i++) {
      const controls = all.length > 0 && random(4) === 0 ? [pick(all)] : [];
      const made = graph.controlDependencies(controls, (): Output | Operation => {
        switch (random(8)) {
          case 0: {
            const placeholder = on(() =>
              raw.placeholder({ dtype: 'float32', shape: random(2) ? [size] : null }),
            );
            feeds.push([placeholder, vector([i / 8, -i / 8], size)]);
            return placeholder;
          }
          case 1: {
            const v = pick(variables);
            const read = graph.controlDependencies(v.writes, () =>
              graph.colocateWith(v.handle, () => raw.readVariableOp(v.handle, { dtype: 'float32' })),
            );
            read.setShape([size]);
            v.reads.push(read.op);
            return read;
          }
          case 2: {
            const v = pick(variables);
            const delta = on(() => raw.mul(operand(), constant(graph, [0.5, 0.25], size)));
            const write = graph.controlDependencies([...v.writes, ...v.reads], () =>
              graph.colocateWith(v.handle, () => raw.assignAddVariableOp(v.handle, delta)),
            );
            v.writes.push(write);
            return write;
          }
          case 3:
            return on(() => raw.tanh(operand()));
          case 4:
            return on(() => raw.noOp());
          case 5:
            return on(() => raw.identity(operand()));
          default:
            return on(() => raw.addV2(operand(), operand()));
        }
      });
      // TensorFlow rejects a run of a placeholder itself, even if it is fed.
      const op = 'op' in made ? made.op : made;
      if (op.type !== 'Placeholder') all.push(op);
      if ('op' in made) values.push(made);
    }
    const reads = variables.map(({ handle }) =>
      graph.colocateWith(handle, () => raw.readVariableOp(handle, { dtype: 'float32' })),
    );
    const fetches = Array.from({ length: random(4) }, () => (values.length > 0 ? [pick(values)] : [])).flat();
    const targets = all.length === 0 ? [] : Array.from({ length: 1 + random(3) }, () => pick(all));
    return { graph, fetches, targets, feeds, init, reads };
  });
}

function constant(graph: Graph, values: number[], size: number): Output {
  return graph.op('Const', [], { dtype: 'float32', value: vector(values, size) }).output();
}

/** The values, again and again. */
const vector = (values: number[], size: number): Tensor =>
  Tensor.of(
    Array.from({ length: size }, (_, i) => values[i % values.length] as number),
    { dtype: 'float32' },
  );
