/** Evaluations whose input comes from JavaScript: each reads it from its beginning. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { mean } from '../../../tensorflow/layers/metrics/index.js';
import { Session } from '../../../tensorflow/session/session.js';
import { generator } from '../../input/dataset/generator.js';
import { smallModel } from '../testing/small-model.js';
import { Workspace } from '../testing/workspace.js';
import { evaluateRepeatedly } from './evaluator.js';

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.make();
});
afterAll(() => space[Symbol.asyncDispose]());

/** Evaluates `times` checkpoints; the metric is the mean of the numbers of the input. */
async function means(
  source: () => Iterable<number>,
  { times, batches }: { readonly times: number; readonly batches?: number },
): Promise<readonly number[]> {
  const { graph, globalStep } = smallModel();
  const metric = graph.asDefault(() => {
    const numbers = generator(source, { element: { dtype: 'float32' }, capacity: 4 }).prefetch(2);
    return mean(numbers.iterator().getNext());
  });
  await using session = Session.open({ graph });
  const found: number[] = [];
  let step = 0;
  await evaluateRepeatedly({
    session,
    saver: {
      latest: async () => `model.ckpt-${step}`,
      restore: async () => void (await session.run(globalStep.initializer)),
      save: () => Promise.reject(new Error('nothing is saved here')),
    },
    checkpointDir: space.path(),
    evaluation: { metrics: { mean: metric }, ...(batches === undefined ? {} : { batches }) },
    pollSecs: 0.01,
    maxEvaluations: times,
    onResults: (results) => {
      found.push(results.mean as number);
      step += 1;
    },
    log: () => {},
  });
  return found;
}

it('evaluates the input to its end', async () => {
  expect(await means(() => [1, 2, 3, 4, 5, 6], { times: 4 })).toEqual([3.5, 3.5, 3.5, 3.5]);
});

it('evaluates a number of batches of an endless input', async () => {
  const endless = function* () {
    for (let i = 0; ; i++) yield i;
  };
  expect(await means(endless, { times: 4, batches: 3 })).toEqual([1, 1, 1, 1]);
});

it('fails if the source fails, without metrics of earlier records', async () => {
  const failing = function* () {
    yield 1;
    throw new Error('the source is broken');
  };
  await expect(means(failing, { times: 1 })).rejects.toThrow(/the source is broken/);
});
