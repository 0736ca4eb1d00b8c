/** Runs a job in this process, without a cluster. */
import { isShoalError } from '../../errors/errors.js';
import { EXIT } from '../../errors/exit-codes.js';
import { requireDirectory } from '../../files/directories.js';
import type { JobDefinition } from '../../job/define-job.js';
import { describeOutputs } from '../../job/describe-outputs.js';
import { claimDirectory, removeClusterFile, writeClusterFile } from '../../job/launcher/cluster-file.js';

export interface RunHereOptions {
  /** The task's own directory. */
  readonly dir: string;
  /** The job's directory, which is locked while the job runs. */
  readonly home: string;
  readonly signal: AbortSignal;
  readonly log: (line: string) => void;
}

/** Runs the job and returns the exit code. */
export async function runHere(job: JobDefinition, options: RunHereOptions): Promise<number> {
  const { home, dir } = options;
  if (!job.train.checkpoint && !job.export) return train(job, options);
  requireDirectory(dir, '--dir');
  claimDirectory(home);
  writeClusterFile(home, { job: job.name, launcher: process.pid, token: '', agents: [] });
  try {
    return await train(job, options);
  } finally {
    removeClusterFile(home);
  }
}

async function train(job: JobDefinition, { signal, log, dir }: RunHereOptions): Promise<number> {
  const { runInProcess } = await import('../../job/run-local.js');
  const result = await runInProcess(job, { signal, log, dir }).catch((error: unknown) => {
    if (!signal.aborted || !isShoalError(error)) throw error;
    log('stopped before training began');
    return undefined;
  });
  if (!result) return EXIT.interrupted;
  const { step, interrupted, outputs } = result;
  if (interrupted) {
    log(`stopped at step ${step}`);
    return EXIT.interrupted;
  }
  log([`done at step ${step}`, ...describeOutputs(outputs)].join(' · '));
  return 0;
}
