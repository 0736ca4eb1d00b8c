/** Fetches of a run: any nesting of outputs, ops and names; results have the same nesting. */
import { invalid } from '../../base/errors/errors.js';
import type { Graph } from '../graph/graph.js';
import { isOutputLike, Operation, Output, type OutputLike } from '../graph/operation.js';
import type { Tensor } from '../tensor/tensor.js';

/** An output or a tensor name gives a Tensor; an operation runs and gives undefined. */
export type Fetch = Output | Operation | OutputLike | string | null | undefined;

/**
 * Fetches in any nesting of arrays and plain objects. The type is not recursive, because the compiler would not
 * terminate; invalid fetches are rejected at run time.
 */
export type Fetches = Fetch | object;

export type FetchResult<F> =
  F extends Output<infer D>
    ? Tensor<D>
    : F extends Operation
      ? undefined
      : F extends OutputLike<infer D>
        ? Tensor<D>
        : F extends string
          ? Tensor
          : F extends null | undefined
            ? F
            : F extends readonly unknown[]
              ? { -readonly [K in keyof F]: FetchResult<F[K]> }
              : F extends object
                ? { -readonly [K in keyof F]: FetchResult<F[K]> }
                : never;

export interface FetchPlan {
  readonly outputs: readonly Output[];
  readonly targets: readonly Operation[];
  /** Assembles fetched values, and fetched feeds, into the nesting. */
  readonly assemble: (values: readonly Tensor[], fed: readonly Tensor[]) => unknown;
}

type Part = FetchPlan['assemble'];

/** `fed` are the fed outputs in order: TensorFlow does not fetch a fed output. */
export function planFetches(graph: Graph, fetches: Fetches, fed: readonly Output[] = []): FetchPlan {
  const outputs: Output[] = [];
  const positions = new Map<Output, number>();
  const targets = new Set<Operation>();

  const fetchOutput = (output: Output): Part => {
    if (output.graph !== graph) throw invalid(`${output} belongs to a graph other than the session's`);
    const given = fed.indexOf(output);
    if (given >= 0) return (_, values) => values[given];
    let at = positions.get(output);
    if (at === undefined) {
      at = outputs.length;
      positions.set(output, at);
      outputs.push(output);
    }
    const position = at;
    return (values) => values[position];
  };

  const plan = (fetch: Fetches, path: string): Part => {
    if (fetch === null || fetch === undefined) return () => fetch;
    if (fetch instanceof Output) return fetchOutput(fetch);
    if (fetch instanceof Operation) {
      if (fetch.graph !== graph) throw invalid(`${fetch} belongs to a graph other than the session's`);
      targets.add(fetch);
      return () => undefined;
    }
    if (typeof fetch === 'string') return fetchOutput(graph.output(fetch));
    if (typeof fetch !== 'object') {
      throw invalid(`Fetch ${path || 'given'} is a ${typeof fetch}; it must be an output, an op or a name`);
    }
    if (isOutputLike(fetch)) return fetchOutput(fetch.toOutput());
    if (Array.isArray(fetch)) {
      const parts = fetch.map((child, i) => plan(child, `${path}[${i}]`));
      return (values, given) => parts.map((part) => part(values, given));
    }
    const entries = Object.entries(fetch).map(
      ([key, child]) => [key, plan(child as Fetches, `${path}.${key}`)] as const,
    );
    return (values, given) => Object.fromEntries(entries.map(([key, part]) => [key, part(values, given)]));
  };

  // Within a nesting they stand for nothing; alone they are a mistake, such as a misspelled property.
  if (fetches === null || fetches === undefined) {
    throw invalid(`A run needs something to fetch, it got ${fetches}`, {
      hint: 'Pass an output, an op, a name, or an array or object of them; [] runs nothing.',
    });
  }
  const assemble = plan(fetches, '');
  return { outputs, targets: [...targets], assemble };
}
