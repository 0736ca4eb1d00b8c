/** The chief's part of synchronous training: it makes the steps of what the workers give. */
import type { Server } from '../cluster/runtime/server.js';
import { parseTaskId } from '../cluster/spec/task-id.js';
import { isShoalError } from '../errors/errors.js';
import { checkpointServiceOf } from '../train/checkpoints/checkpoint-service.js';
import { startSync } from '../train/hooks/start-sync.js';
import type { RecoverableSession } from '../train/recovery/recoverable-session.js';
import type { TrainingGraph } from './training-graph.js';

/** Begins to lead, where this task is the chief; its end releases whoever still waits for a token. */
export async function leadSync(
  server: Server,
  session: RecoverableSession,
  { sync }: TrainingGraph,
  log: (line: string) => void,
): Promise<AsyncDisposable> {
  if (!sync) return { [Symbol.asyncDispose]: async () => {} };
  await session.runUngated(sync.localStepInitOp);
  if (!server.isChief) return { [Symbol.asyncDispose]: async () => {} };
  await startSync({ run: (fetches, options) => session.runUngated(fetches, options) }, sync, { log });
  const over = new AbortController();
  const unlessOver = (error: unknown): void => {
    // A signal to the task ends its runs as the end of training does.
    const isStopped = over.signal.aborted || isShoalError(error, 'SHOAL_ABORTED');
    if (!isStopped || !isShoalError(error)) throw error;
  };
  const replacing = new Set<Promise<unknown>>();
  const unsubscribe = server.task.events.on('lost', ({ member }) => {
    if (parseTaskId(member.task).job === 'ps') return;
    const replaced = session
      .runUngated(sync.replaceTokenOp, { signal: over.signal })
      .then(() => {}, unlessOver);
    replacing.add(replaced);
    void replaced.finally(() => replacing.delete(replaced));
  });
  const leading = (async () => {
    while (!over.signal.aborted) await session.runUngated(sync.syncOp, { signal: over.signal });
  })().catch(unlessOver);
  // Whoever disposes hears of a failure; until then it is nobody's to report.
  leading.catch(() => {});
  const stop = async () => {
    unsubscribe();
    over.abort('training is over');
    await Promise.all([leading, ...replacing]);
  };
  const service = checkpointServiceOf(server);
  if (service) service.stopSteps = stop;
  return {
    async [Symbol.asyncDispose]() {
      await stop();
      await session.runUngated(sync.releaseOp).catch(unlessOver);
    },
  };
}
