/**
 * Checks gradients twice: against central differences and against Python TensorFlow.
 *
 * How to add a gradient with its check:
 * 1. Write it into the table of its family (`src/tensorflow/gradients/<family>.ts`), listed in registry.ts.
 * 2. Add cases to `testing/cases/<family>.ts`: `{ op: 'Mul', inputs: [f([2, 3]), f([3])] }`. Inputs are random
 *    (default dtype: float64); `f`, `f32`, `complex`, `ints` in case.ts create them;
 *    `attrs` have TensorFlow's names. A case of more than one op (a loop, a variable) has `build`.
 *    `order: 2` checks the gradient of the gradient. A random graph of each case runs with known shapes and
 *    with placeholders of unknown rank. `noNumeric`, `noOracle`, `noUnknown` contain the reason why a check is
 *    skipped; `step` makes differences possible for kernels that support only float32.
 * 3. List the table in all-cases.ts, and call `checkGradients(cases)` in `<family>.test.ts`.
 * 4. `npx tsx src/tensorflow/gradients/testing/write-features.ts` updates the table in FEATURES.md.
 *
 * One Python process (SHOAL_ORACLE_PYTHON) computes all cases of one call from the GraphDef of the
 * forward part, so that both sides differentiate the same graph.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { library } from '../../native/library/library.js';
import { isComplex } from '../../tensor/dtype.js';
import { formatShape } from '../../tensor/shape.js';
import type { Tensor } from '../../tensor/tensor.js';
import { dtypeOf, type GradientCase, type InputSpec } from './case.js';
import { type Instance, makeInstance, noNumericReason } from './instance.js';
import { askOracle, fromOracle, type OracleAnswer } from './oracle.js';

const ORACLE_TOLERANCE: Readonly<Record<string, number>> = {
  float64: 1e-10,
  complex128: 1e-10,
  float32: 2e-5,
  complex64: 2e-5,
};
const COARSE_TOLERANCE = 2e-2;

/** Python imports TensorFlow and builds every graph, which is slow on a busy machine. */
const PREPARE_TIMEOUT_MS = 600_000;

export function checkGradients(cases: readonly GradientCase[]): void {
  const known: Instance[] = [];
  const unknown = new Map<number, Instance>();
  let answers: readonly OracleAnswer[] = [];

  beforeAll(async () => {
    for (const [i, one] of cases.entries()) {
      try {
        known.push(await makeInstance(one, i + 1, 'known'));
        if (!one.noUnknown) unknown.set(i, await makeInstance(one, i + 1, 'unknown'));
      } catch (error) {
        throw new Error(`${describeCase(one)}: ${error}`, { cause: error });
      }
    }
    answers = (await askOracle({ cases: known.map(({ question }) => question) })).cases;
  }, PREPARE_TIMEOUT_MS);
  afterAll(async () => {
    for (const instance of [...known, ...unknown.values()]) await instance.close();
  });

  for (const [i, one] of cases.entries()) {
    describe(describeCase(one), () => {
      if (one.needsOneDnn && library().oneDnn === false) {
        test('fails with a hint to enable oneDNN', async () => {
          await expect((known[i] as Instance).gradients()).rejects.toMatchObject({
            code: expect.stringMatching(/^SHOAL_TF_/),
            hint: expect.stringContaining('oneDNN'),
          });
        });
        return;
      }
      if (!one.noOracle) {
        test('matches TensorFlow', () =>
          compareWithOracle(one, known[i] as Instance, answers[i] as OracleAnswer));
        if (!one.noUnknown) {
          test('matches TensorFlow with inputs of unknown rank', () =>
            compareWithOracle(one, unknown.get(i) as Instance, answers[i] as OracleAnswer));
        }
      }
      if (!noNumericReason(one)) {
        test('matches central differences', () => compareWithDifferences(one, known[i] as Instance));
      }
      if (one.noOracle && noNumericReason(one)) {
        test('runs', async () => {
          await (known[i] as Instance).gradients();
        });
      }
    });
  }
}

export function describeCase(one: GradientCase): string {
  const show = (spec: InputSpec) => `${dtypeOf(spec)} ${formatShape(spec.shape ?? [])}`;
  const inputs = one.inputs.map((spec) =>
    Array.isArray(spec) ? `(${(spec as InputSpec[]).map(show).join(', ')})` : show(spec as InputSpec),
  );
  const attrs = 'attrs' in one && one.attrs ? ` ${JSON.stringify(one.attrs)}` : '';
  const order = one.order === 2 ? ' twice' : '';
  return `${one.op}${order}${one.name ? `, ${one.name}` : ''}: ${inputs.join(', ')}${attrs}`;
}

async function compareWithOracle(one: GradientCase, instance: Instance, answer: OracleAnswer): Promise<void> {
  if ('error' in answer) throw new Error(`TensorFlow failed: ${answer.error}`);
  const own = await instance.gradients();
  expect(own.length, 'number of gradients').toBe(answer.gradients.length);
  own.forEach(({ value, sparse }, i) => {
    const theirs = answer.gradients[i];
    const where = `the gradient of x ${i}`;
    if (!value || !theirs) {
      if (one.nullIsZero) {
        const given = value ?? (theirs && fromOracle(theirs));
        for (const element of given ? elements(given) : []) expect(element, where).toBe(0);
        return;
      }
      expect(value === null ? 'none' : 'some', where).toBe(theirs ? 'some' : 'none');
      return;
    }
    if (theirs.sparse) expect(sparse, `${where} is sparse`).toBe(true);
    const expected = fromOracle(theirs);
    expect(value.dtype, where).toBe(expected.dtype);
    expect(value.shape, where).toEqual(expected.shape);
    const tolerance = one.oracleTolerance ?? ORACLE_TOLERANCE[value.dtype] ?? COARSE_TOLERANCE;
    expectClose(elements(value), elements(expected), tolerance, where);
  });
}

async function compareWithDifferences(one: GradientCase, instance: Instance): Promise<void> {
  const own = await instance.gradients();
  instance.differences().forEach((expected, i) => {
    const value = own[i]?.value;
    const given = value ? elements(value) : new Array<number>(expected.length).fill(0);
    expectClose(given, [...expected], one.tolerance ?? (one.step ? 5e-3 : 1e-6), `the gradient of x ${i}`);
  });
}

/** The flat elements, complex ones as re, im. */
function elements(tensor: Tensor): number[] {
  const isPair = isComplex(tensor.dtype);
  return [tensor.toArray()]
    .flat(Number.POSITIVE_INFINITY as 1)
    .flatMap((element) =>
      isPair
        ? [(element as { re: number }).re, (element as unknown as { im: number }).im]
        : [Number(element)],
    );
}

function expectClose(
  given: readonly number[],
  expected: readonly number[],
  tolerance: number,
  where: string,
): void {
  expect(given.length, `${where}: number of elements`).toBe(expected.length);
  const finite = expected.filter(Number.isFinite).map(Math.abs);
  const allowed = tolerance * Math.max(1, ...finite);
  given.forEach((value, at) => {
    const wanted = expected[at] as number;
    const close = Object.is(value, wanted) || value === wanted || Math.abs(value - wanted) <= allowed;
    if (!close) {
      throw new Error(
        `${where}: element ${at} is ${value}, not ${wanted}\n  given ${given}\n  wanted ${expected}`,
      );
    }
  });
}
