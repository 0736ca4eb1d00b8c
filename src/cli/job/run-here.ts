/** A job in this very process, without a cluster, as the commands show it. */
import type { JobDefinition } from '../../job/define-job.js';

export interface RunHereOptions {
  readonly signal: AbortSignal;
  readonly log: (line: string) => void;
}

/** Runs the job and gives the exit code. */
export async function runHere(job: JobDefinition, { signal, log }: RunHereOptions): Promise<number> {
  const { runInProcess } = await import('../../job/run-local.js');
  const { step, interrupted, outputs } = await runInProcess(job, { signal, log });
  if (interrupted) {
    log(`stopped at step ${step}`);
    return 130;
  }
  const shown = Object.entries(outputs).map(([name, value]) => `${name} = ${JSON.stringify(value, plain)}`);
  log([`done at step ${step}`, ...shown].join(' · '));
  return 0;
}

const plain = (_key: string, value: unknown): unknown => (typeof value === 'bigint' ? Number(value) : value);
