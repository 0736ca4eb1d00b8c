/** Runs a job in this process, without a cluster. `shoal status` finds its step in the job's directory. */
import { rmdirSync } from 'node:fs';
import { isShoalError } from '../../../base/errors/errors.js';
import { EXIT } from '../../../base/errors/exit-codes.js';
import { makeDirectorySync, requireDirectory } from '../../../base/files/directories.js';
import type { Log } from '../../../base/text/log.js';
import type { JobDefinition } from '../../job/definition/define-job.js';
import {
  claimDirectory,
  readClusterFile,
  removeClusterFile,
  writeClusterFile,
} from '../../job/launcher/cluster-file.js';
import { describeResult, endData } from '../../job/running/describe-outputs.js';

export interface RunHereOptions {
  /** The task's own directory. */
  readonly dir: string;
  /** The job's directory, which is locked while the job runs. */
  readonly home: string;
  readonly signal: AbortSignal;
  readonly log: Log;
  readonly reportsOutputs?: boolean;
}

/** How often the step is written for `shoal status`. */
const STEP_MS = 1000;

/** Runs the job and returns the exit code. */
export async function runHere(job: JobDefinition, options: RunHereOptions): Promise<number> {
  const { home, dir } = options;
  const isClaimed = [job.train.checkpoint, job.export, job.evaluate].some((keeps) => keeps !== undefined);
  if (isClaimed) {
    requireDirectory(dir, '--dir');
    claimDirectory(home);
  }
  using status = new StatusFile(job, home, isClaimed);
  return await train(job, options, (step) => status.update(step));
}

/** `cluster.json` of this process. A job that keeps nothing runs without it if the directory is in use or read-only. */
class StatusFile implements Disposable {
  readonly #job: JobDefinition;
  readonly #home: string;
  readonly #created: readonly string[] = [];
  #isWritten = false;
  #writtenAt = Number.NEGATIVE_INFINITY;

  constructor(job: JobDefinition, home: string, isClaimed: boolean) {
    this.#job = job;
    this.#home = home;
    try {
      if (!isClaimed && readClusterFile(home) !== undefined) return;
      const created = makeDirectorySync(home);
      if (!isClaimed) this.#created = created;
      this.#write();
      this.#isWritten = true;
    } catch (error) {
      if (isClaimed) throw error;
    }
  }

  update(step: number): void {
    if (!this.#isWritten || performance.now() - this.#writtenAt < STEP_MS) return;
    try {
      this.#write(step);
    } catch {
      // The status is not worth a failure, of a full disk for example.
    }
  }

  #write(step?: number): void {
    const { name, train } = this.#job;
    this.#writtenAt = performance.now();
    writeClusterFile(this.#home, {
      job: name,
      launcher: process.pid,
      token: '',
      agents: [],
      ...(step !== undefined && { progress: { step, lastStep: train.lastStep } }),
    });
  }

  [Symbol.dispose](): void {
    if (!this.#isWritten) return;
    removeClusterFile(this.#home);
    for (const path of this.#created.toReversed()) {
      try {
        rmdirSync(path);
      } catch {
        return; // Something else is in it.
      }
    }
  }
}

async function train(
  job: JobDefinition,
  { signal, log, dir, reportsOutputs = false }: RunHereOptions,
  onStep: (step: number) => void,
): Promise<number> {
  const { runInProcess } = await import('../../job/running/run-local.js');
  const result = await runInProcess(job, { signal, log, dir, onStep, reportsOutputs }).catch(
    (error: unknown) => {
      if (!signal.aborted || !isShoalError(error)) throw error;
      log('stopped before training began');
      return undefined;
    },
  );
  if (!result) return EXIT.interrupted;
  const { step, interrupted } = result;
  const data = endData(result, job.train.lastStep);
  if (interrupted) {
    log(`stopped at step ${step}`, 'info', data);
    return EXIT.interrupted;
  }
  log([`done at step ${step}`, ...describeResult(result)].join(' · '), 'info', data);
  return 0;
}
