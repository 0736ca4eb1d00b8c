import { afterAll, beforeAll, expect, it } from 'vitest';
import { Session } from '../../../tensorflow/session/session.js';
import { type SmallModel, smallModel } from '../testing/small-model.js';
import type { Server } from './server.js';
import { countBefore, StepWatch } from './step-watch.js';
import type { TrainingRunner } from './training-runner.js';

let model: SmallModel;
let session: Session;
beforeAll(async () => {
  model = smallModel();
  session = Session.open({ graph: model.graph });
  await session.run(
    model.graph.getCollection<typeof model.globalStep>('variables').map((v) => v.initializer),
  );
  for (let i = 0; i < 3; i++) await session.run(model.trainOp);
});
afterAll(() => session.close());

const runner = (run: TrainingRunner['run'] = session.run.bind(session), more: object = {}) =>
  ({ graph: model.graph, run, ...more }) as TrainingRunner;

/** A server with the steps that were reported to it; the last report is `ageMs` old. */
function server(ageMs: number) {
  const steps: number[] = [];
  const onStep: Server['onStep'] = (step) => void steps.push(step);
  return { steps, onStep, sinceStepMs: ageMs, lostPs: () => [] };
}

it('reports the step of a task whose program does not fetch it', async () => {
  const reported = server(Number.POSITIVE_INFINITY);
  const watch = new StepWatch(runner(undefined, { server: reported }), reported);
  watch.made();
  watch.made();
  await expect.poll(() => reported.steps).toEqual([3]);
});

it('leaves a step alone that hooks have just reported, and survives a lost ps', async () => {
  const recent = server(10);
  new StepWatch(runner(), recent).made();
  const old = server(1000);
  let tries = 0;
  const failing = new StepWatch(
    runner(() => Promise.reject(new Error(`lost ${++tries}`))),
    old,
  );
  failing.made();
  await expect.poll(() => tries).toBe(1);
  await expect
    .poll(() => {
      failing.made();
      return tries;
    })
    .toBeGreaterThan(1);
  expect([recent.steps, old.steps]).toEqual([[], []]);
});

it('reads the step before a restore, unless its ps has lost it', async () => {
  const read: (number | undefined)[] = [];
  const recoveryReport = { reached: (step: number | undefined) => read.push(step) };
  await countBefore(runner(undefined, { recoveryReport }), []);
  await countBefore(runner(undefined, { recoveryReport }), [model.globalStep as never]);
  expect(read).toEqual([3]);
});
