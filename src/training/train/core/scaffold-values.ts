/** Gives the variables of a scaffold their values: from the newest checkpoint, its init op, or their initializers. */

import { variablesLost } from '../../../base/text/format.js';
import type { Log } from '../../../base/text/log.js';
import type { Variable } from '../../../tensorflow/variables/variable.js';
import { initializeInOrder } from '../recovery/initialize-in-order.js';
import type { RecoveryMode } from '../recovery/recovery-mode.js';
import type { TrainingRunner } from '../task/training-runner.js';
import type { TrainingValues } from './open-training.js';
import type { Scaffold } from './scaffold.js';

export interface ScaffoldValuesOptions {
  readonly checkpointDir: string | undefined;
  readonly recovery: RecoveryMode | undefined;
  readonly signal: AbortSignal;
  readonly log: Log;
}

export function scaffoldValues(
  scaffold: Scaffold,
  runner: TrainingRunner,
  options: ScaffoldValuesOptions,
): TrainingValues {
  const { initOp, initFn, initFeedDict, localInitOp, localInitFeedDict } = scaffold;
  const { readyOp, readyForLocalInitOp } = scaffold;
  const initialize = async (missing: readonly Variable[]) => {
    const feeds = { feeds: initFeedDict };
    if (initOp) await runner.run(initOp, feeds);
    else if (options.recovery === 'partial')
      await runner.run(
        missing.map(({ initializer }) => initializer),
        feeds,
      );
    else await initializeInOrder(runner, missing, feeds);
    await initFn?.(scaffold, runner);
  };
  return {
    restore: restorer(scaffold, runner, options),
    newestStep: async () =>
      options.checkpointDir === undefined || !runner.server
        ? undefined
        : scaffold.saver?.newestStep?.(runner, options.checkpointDir),
    initialize: initOp || initFn || initFeedDict ? initialize : undefined,
    localInit: async () => {
      if (localInitOp) await runner.run(localInitOp, { feeds: localInitFeedDict });
    },
    readyOp,
    readyForLocalInitOp,
  };
}

/** Restores the newest checkpoint, if any. A checkpoint that cannot be read is an error, never a fresh start. */
function restorer({ saver }: Scaffold, runner: TrainingRunner, options: ScaffoldValuesOptions) {
  const { checkpointDir, recovery, signal, log } = options;
  const partial = recovery === 'partial';
  return async (missing: readonly Variable[], again: boolean): Promise<boolean> => {
    if (!saver || checkpointDir === undefined) return false;
    const path = await saver.latest(runner, checkpointDir, { signal });
    if (path === undefined) return false;
    log(`restoring ${path}${again && missing.length > 0 ? `: ${variablesLost(missing.length)}` : ''}`);
    const report = await (saver.restoreNewest
      ? saver.restoreNewest(runner, checkpointDir, { signal, missing, partial })
      : saver.restore(runner, path, { signal, missing, partial }));
    if (saver.restoreNewest && !report) return false;
    runner.input?.restored((report as { input?: unknown } | undefined)?.input);
    return true;
  };
}
