/** Error messages for non-finite numbers and misuse, end to end. */
import { describe, expect, it } from 'vitest';
import { isShoalError, ShoalError } from '../../base/errors/errors.js';
import { Graph } from '../graph/graph.js';
import { log, matMul, placeholder } from '../ops/index.js';
import { Session } from '../session/session.js';
import { Tensor } from '../tensor/tensor.js';
import { getOrCreateGlobalStep, globalVariablesInitializer } from '../variables/index.js';
import { assertFinite, checkFinite, checkNumerics } from './index.js';
import { dense } from './layers.js';

async function failureOf(promise: Promise<unknown>): Promise<ShoalError> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(ShoalError);
  return error as ShoalError;
}

describe('a loss that is not finite', () => {
  it('is reported by checkFinite with its name and step', () => {
    const failure = (value: Tensor | number): ShoalError => {
      try {
        checkFinite(value, { name: 'loss', step: 12n });
      } catch (error) {
        return error as ShoalError;
      }
      throw new Error('no error was thrown');
    };
    expect(failure(Number.NaN).code).toBe('SHOAL_NAN');
    expect(failure(Number.NaN)).toMatchObject({
      message: 'loss is NaN at step 12',
      hint: expect.stringContaining('learning rate'),
    });
    expect(failure(Tensor.of(Number.NEGATIVE_INFINITY)).message).toMatch(/^loss is -Infinity at step 12/);
    expect(
      failure(
        Tensor.of([
          [1, Number.NaN],
          [Number.POSITIVE_INFINITY, Number.NaN],
        ]),
      ).message,
    ).toMatch(/^loss has 2 NaN and 1 infinite of 4 values at step 12/);
  });

  it('passes checkFinite if it is finite', () => {
    checkFinite(1.5, { name: 'loss' });
    checkFinite(Tensor.of([1, 2, 3]), { name: 'loss' });
    checkFinite(Tensor.of(7n), { name: 'step' });
  });

  it('fails the run with assertFinite, naming the tensor and the step', async () => {
    using graph = new Graph();
    await graph.asDefault(async () => {
      const x = placeholder({ shape: [], name: 'x' });
      const globalStep = getOrCreateGlobalStep();
      const loss = assertFinite(log(x, { name: 'log_of_x' }), { globalStep });
      await using session = Session.open({ graph });
      await session.run(globalVariablesInitializer());
      await session.run(globalStep.assignAdd(41n));
      expect((await session.run(loss, { feeds: [[x, 1]] })).number()).toBe(0);
      const error = await failureOf(session.run(loss, { feeds: [[x, -1]] }));
      expect(error.message).toMatch(/log_of_x:0 is not finite:.*nan.*at step.*41/i);
    });
  });

  it('fails the run with checkNumerics', async () => {
    using graph = new Graph();
    await graph.asDefault(async () => {
      const x = placeholder({ shape: [], name: 'x' });
      const loss = checkNumerics(log(x), 'the loss');
      await using session = Session.open({ graph });
      const error = await failureOf(session.run(loss, { feeds: [[x, 0]] }));
      expect(error.message).toMatch(/the loss : Tensor had .*Inf/i);
    });
  });
});

describe('a variable used before it has a value', () => {
  it('is named, with a hint to initialize it', async () => {
    using graph = new Graph();
    await graph.asDefault(async () => {
      const y = dense([[1, 2]], 3, { name: 'hidden', useBias: false });
      await using session = Session.open({ graph });
      const error = await failureOf(session.run(y));
      expect(isShoalError(error, 'SHOAL_TF_FAILED_PRECONDITION')).toBe(true);
      expect(error.hint).toMatch(
        /Variable hidden\/kernel has no value yet: run tf\.globalVariablesInitializer\(\)/,
      );
    });
  });
});

describe('incompatible shapes', () => {
  it('are both shown with the op when the graph is built', () => {
    using graph = new Graph();
    graph.asDefault(() => {
      const a = placeholder({ shape: [2, 3] });
      const b = placeholder({ shape: [4, 5] });
      expect(() => matMul(a, b, { name: 'product' })).toThrow(
        /'\{\{node product\}\} = MatMul.*with input shapes: \[2,3\], \[4,5\]/,
      );
    });
  });

  it('are both shown with the op when they are known only at run time', async () => {
    using graph = new Graph();
    await graph.asDefault(async () => {
      const [a, b] = [placeholder({ name: 'a' }), placeholder({ name: 'b' })];
      const sum = a.add(b);
      await using session = Session.open({ graph });
      const feeds = [
        [a, [1, 2]],
        [b, [1, 2, 3]],
      ] as const;
      const error = await failureOf(session.run(sum, { feeds }));
      expect(error.message).toMatch(/Incompatible shapes: \[2\] vs\. \[3\]/);
      expect(error.op).toBe(sum.op.name);
    });
  });

  it('are both shown with the placeholder for a wrong feed', async () => {
    using graph = new Graph();
    await graph.asDefault(async () => {
      const x = placeholder({ shape: [null, 3], name: 'images' });
      await using session = Session.open({ graph });
      const error = await failureOf(session.run(x, { feeds: [[x, [[1, 2]]]] }));
      expect(error.message).toMatch(/feed for 'images' must have shape \[\?, 3\]; got \[1, 2\]/);
    });
  });
});
