/** Compares hundreds of ops with Python TensorFlow: dtypes, shapes, values. */
import fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import { messageOf } from '../../src/base/errors/errors.js';
import { Graph } from '../../src/tensorflow/graph/graph.js';
import { Session } from '../../src/tensorflow/session/session.js';
import type { Tensor } from '../../src/tensorflow/tensor/tensor.js';
import { askPython } from '../python.js';
import { noise, type OpCase, op } from './case.js';
import { CASES } from './cases/index.js';
import { callWrapper, difference, questionOf, type WireTensor } from './compare.js';

type Answer = { readonly outputs: readonly WireTensor[] } | { readonly error: string };

/** Random broadcastable shapes for binary ops. */
const BROADCASTING = [
  'AddV2',
  'Sub',
  'Mul',
  'RealDiv',
  'Maximum',
  'Minimum',
  'SquaredDifference',
  'Less',
  'Equal',
];
const broadcastCases: OpCase[] = fc
  .sample(
    fc.record({
      name: fc.constantFrom(...BROADCASTING),
      dtype: fc.constantFrom('float32' as const, 'float64' as const),
      dims: fc.array(fc.tuple(fc.integer({ min: 0, max: 4 }), fc.constantFrom('both', 'left', 'right')), {
        maxLength: 5,
      }),
      cut: fc.nat({ max: 5 }),
      seed: fc.nat({ max: 1000 }),
    }),
    { numRuns: 150, seed: 42 },
  )
  .map(({ name, dtype, dims, cut, seed }) => {
    const left = dims.map(([size, side]) => (side === 'right' ? 1 : size));
    const right = dims.map(([size, side]) => (side === 'left' ? 1 : size)).slice(Math.min(cut, dims.length));
    return op(name, [noise(left, -3, 3, dtype, seed), noise(right, 1, 3, dtype, seed + 1)]);
  });

type Outcome = { readonly values: readonly Tensor[] } | { readonly error: string };

const cases = [...CASES, ...broadcastCases];
let answers: readonly Answer[];
let outcomes: readonly Outcome[];

/** TensorFlow prepares the complete graph for every new run: few runs of many cases, in small graphs. */
const CASES_PER_RUN = 40;

beforeAll(async () => {
  const asked = askPython<Answer[]>(new URL('./ops.py', import.meta.url), cases.map(questionOf));
  outcomes = Array.from({ length: Math.ceil(cases.length / CASES_PER_RUN) }, (_, i) =>
    evaluate(cases.slice(i * CASES_PER_RUN, (i + 1) * CASES_PER_RUN)),
  ).flat();
  answers = await asked;
});

/** Runs all cases at once; if that fails, one by one, to find the failing ones. */
function evaluate(given: readonly OpCase[]): Outcome[] {
  using graph = new Graph();
  using session = Session.open({ graph });
  try {
    const outputs = given.map((one) => graph.asDefault(() => callWrapper(one)));
    return session.runSync(outputs).map((values) => ({ values }));
  } catch (error) {
    return given.length === 1 ? [{ error: messageOf(error) }] : given.flatMap((one) => evaluate([one]));
  }
}

function disagreement(index: number): string | undefined {
  const [answer, outcome] = [answers[index] as Answer, outcomes[index] as Outcome];
  if ('error' in answer) return `Python fails: ${answer.error}`;
  if ('error' in outcome) return `fails: ${outcome.error}`;
  const { values } = outcome;
  if (values.length !== answer.outputs.length)
    return `${values.length} outputs instead of ${answer.outputs.length}`;
  const { computed, tolerance } = cases[index] as OpCase;
  for (const [i, theirs] of answer.outputs.slice(0, computed).entries()) {
    const found = difference(values[i] as Tensor, theirs, tolerance);
    if (found) return `output ${i} ${found}`;
  }
  return undefined;
}

const byOp = new Map<string, number[]>();
for (const [i, { op: name }] of CASES.entries()) byOp.set(name, [...(byOp.get(name) ?? []), i]);

describe('same result as Python', () => {
  test.each([...byOp])('%s', (_, indices) => {
    expect(indices.map(disagreement).filter(Boolean)).toEqual([]);
  });

  test('binary ops with random broadcastable shapes', () => {
    for (let i = CASES.length; i < cases.length; i++) {
      const given = cases[i] as OpCase;
      const shapes = given.inputs.map((input) => `[${(input as Tensor).shape}]`).join(' and ');
      expect(disagreement(i), `${given.op} of ${shapes}`).toBeUndefined();
    }
  });
});

test('there are cases for more than 300 ops', () => {
  expect(byOp.size).toBeGreaterThan(300);
});
