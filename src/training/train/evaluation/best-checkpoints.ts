/**
 * Keeps the checkpoints with the best values of a metric, whatever their age. They are pinned in the saver that created
 * them, or in that of their copies, in a separate directory, if another process manages the originals. A file lists them,
 * so that a restarted process compares with the earlier ones.
 */

import { readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { invalid } from '../../../base/errors/errors.js';
import { makeDirectory } from '../../../base/files/directories.js';
import type { Log } from '../../../base/text/log.js';
import { isBetter, type Mode } from '../hooks/metric-comparison.js';
import type { SaverLike, TrainingRunner } from '../task/training-runner.js';
import type { Results } from './evaluate.js';

/** Which checkpoints are the best. */
export interface BestPolicy {
  readonly metric: string;
  readonly mode: Mode;
  /** The smallest change that counts as an improvement. Default: 0. */
  readonly minDelta?: number;
  /** How many of the best to keep. Default: 1. */
  readonly keep?: number;
}

export interface BestCheckpointsOptions {
  readonly policy: BestPolicy;
  /** Saves the checkpoints, and pins them unless they are copied. */
  readonly saver: SaverLike;
  /** The directory of `best.json` and of copies. */
  readonly directory: string;
  /** Saves copies to the directory, which its saver pins if it can; others its `maxToKeep` limits. Default: false. */
  readonly copy?: boolean;
  /** Receives log lines; default: none. */
  readonly log?: Log;
}

export interface BestCheckpoint {
  readonly step: number;
  readonly value: number;
  readonly path: string;
}

const FILE = 'best.json';

export class BestCheckpoints {
  readonly #options: BestCheckpointsOptions;
  #best: readonly BestCheckpoint[] | undefined;

  constructor(options: BestCheckpointsOptions) {
    if (!options.copy && !options.saver.pin) {
      throw invalid('This saver cannot pin checkpoints: use { copy: true }');
    }
    this.#options = options;
  }

  /** The best first. */
  get all(): readonly BestCheckpoint[] {
    return this.#best ?? [];
  }

  /** Pins the best checkpoints of an earlier process before they can be removed. */
  async recall(session: TrainingRunner): Promise<void> {
    await this.#load(session);
  }

  /** Keeps the state of the session if it is among the best; `path` returns or saves its checkpoint. */
  async consider(
    session: TrainingRunner,
    { step, results, path }: { step: number; results: Results; path: () => Promise<string> },
  ): Promise<boolean> {
    const { policy, copy, saver, directory, log } = this.#options;
    const { metric, mode, minDelta = 0, keep = 1 } = policy;
    const value = results[metric];
    if (value === undefined) {
      throw invalid(`There is no metric '${metric}'; the metrics are ${Object.keys(results).join(', ')}`);
    }
    const known = await this.#load(session);
    // The same state again, of a process that resumed.
    if (known.some((other) => other.step === step && other.value === value)) return false;
    const worst = known.length < keep ? undefined : known.at(-1);
    if (Number.isNaN(value) || (worst && !isBetter(value, worst.value, mode, minDelta))) return false;
    const kept = copy ? await saver.save(session, join(directory, 'model.ckpt')) : await path();
    const better = (a: BestCheckpoint, b: BestCheckpoint) => (isBetter(a.value, b.value, mode) ? -1 : 1);
    this.#best = [...known.filter((other) => other.path !== kept), { step, value, path: kept }]
      .sort(better)
      .slice(0, keep);
    await this.#pin(session);
    await this.#write();
    // The copy that is not among the best any more.
    if (copy) await saver.tidy?.(session, directory);
    log?.(`new best ${metric}: ${value} at step ${step}; kept as ${kept}`);
    return true;
  }

  async #load(session: TrainingRunner): Promise<readonly BestCheckpoint[]> {
    if (this.#best) return this.#best;
    try {
      this.#best = JSON.parse(
        await readFile(join(this.#options.directory, FILE), 'utf8'),
      ) as BestCheckpoint[];
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
      this.#best = [];
    }
    await this.#pin(session);
    return this.#best;
  }

  async #pin(session: TrainingRunner): Promise<void> {
    await this.#options.saver.pin?.(
      session,
      this.all.map(({ path }) => path),
    );
  }

  /** Atomic: a reader sees the old file or the new one. */
  async #write(): Promise<void> {
    const { directory } = this.#options;
    await makeDirectory(directory);
    const draft = join(directory, `${FILE}.part`);
    await writeFile(draft, `${JSON.stringify(this.#best, null, 2)}\n`);
    await rename(draft, join(directory, FILE));
  }
}
