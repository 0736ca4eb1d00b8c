/** Runs and saves of a process without a cluster: one at a time, while no training step is in flight. */
import { abortError } from '../../../base/async/deadline.js';
import { serialQueue } from '../../../base/async/serial-queue.js';
import type { PauseControl } from '../../../distributed/checkpoint/protocol/save.js';
import type { StepGate } from '../recovery/steps/step-gate.js';
import type { TrainingRunner } from '../task/training-runner.js';

/** Longer than any step. */
const PAUSE_MS = 24 * 60 * 60_000;
const THIS_PROCESS = 'this process';

export function betweenSteps(runner: TrainingRunner, gate: StepGate) {
  const inTurn = serialQueue();
  const run: TrainingRunner['run'] = (fetches, options) =>
    inTurn(async () => {
      await gate.pause({ leaseMs: PAUSE_MS });
      try {
        return await runner.run(fetches, options);
      } finally {
        gate.resume();
      }
    });
  let resume = () => {};
  const pauseControl: PauseControl = {
    workers: () => [THIS_PROCESS],
    pauseTimeoutMs: () => PAUSE_MS,
    pause: (_, { leaseMs, signal }) =>
      new Promise((resolve, reject) => {
        const pause = async () => {
          if (signal.aborted) throw abortError('A save', signal);
          const over = new Promise<'over'>((end) => {
            resume = () => end('over');
            signal.addEventListener('abort', () => end('over'), { once: true });
          });
          try {
            const isOver = (await Promise.race([gate.pause({ leaseMs }), over])) === 'over';
            if (isOver) throw abortError('A save', signal);
            resolve();
            await over;
          } finally {
            gate.resume();
          }
        };
        inTurn(pause).catch(reject);
      }),
    resume: async () => resume(),
  };
  return { betweenSteps: { ...runner, run }, saving: { ...runner, pauseControl } };
}
