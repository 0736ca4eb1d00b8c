/**
 * Keeps the checkpoints that a metric says are the best, whatever their age. They are pinned with the saver that made
 * them, or copied to a directory of their own where another process rules over the originals. A file tells which they
 * are, so that a process that is started again knows what there is to beat.
 */
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { invalid } from '../../errors/errors.js';
import { isBetter, type Mode } from '../hooks/metric-comparison.js';
import type { SaverLike, TrainingRunner } from '../recovery/training-runner.js';
import type { Results } from './evaluate.js';

/** Which checkpoint is better. */
export interface BestPolicy {
  readonly metric: string;
  readonly mode: Mode;
  /** How much better it must be to count. */
  readonly minDelta?: number;
  /** How many of the best to keep. */
  readonly keep?: number;
}

export interface BestCheckpointsOptions {
  readonly policy: BestPolicy;
  /** Makes the checkpoints, and pins them unless they are copied. */
  readonly saver: SaverLike;
  /** Where `best.json` goes, and copies. */
  readonly directory: string;
  /** Whether to save a copy below the directory instead of pinning; the saver's own `maxToKeep` is for those. */
  readonly copy?: boolean;
  readonly log?: (line: string) => void;
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
      throw invalid('This saver can not pin checkpoints: they can only be copied: { copy: true }');
    }
    this.#options = options;
  }

  /** The best first. */
  get all(): readonly BestCheckpoint[] {
    return this.#best ?? [];
  }

  /** Pins what an earlier process found best, before anything removes it. */
  async recall(session: TrainingRunner): Promise<void> {
    await this.#load(session);
  }

  /** Keeps the state of the session if it is among the best; `path` names or makes its checkpoint. */
  async consider(
    session: TrainingRunner,
    { step, results, path }: { step: number; results: Results; path: () => Promise<string> },
  ): Promise<boolean> {
    const { policy, copy, saver, directory, log } = this.#options;
    const { metric, mode, minDelta = 0, keep = 1 } = policy;
    const value = results[metric];
    if (value === undefined) {
      throw invalid(`There is no metric '${metric}': there are ${Object.keys(results).join(', ')}`);
    }
    const known = await this.#load(session);
    const worst = known.length < keep ? undefined : known.at(-1);
    if (Number.isNaN(value) || (worst && !isBetter(value, worst.value, mode, minDelta))) return false;
    const kept = copy ? await saver.save(session, join(directory, 'model.ckpt')) : await path();
    const better = (a: BestCheckpoint, b: BestCheckpoint) => (isBetter(a.value, b.value, mode) ? -1 : 1);
    this.#best = [...known.filter((other) => other.path !== kept), { step, value, path: kept }]
      .sort(better)
      .slice(0, keep);
    await this.#pin(session);
    await this.#write();
    log?.(`the best ${metric} so far: ${value}, of step ${step}; kept as ${kept}`);
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
    const { copy, saver } = this.#options;
    if (!copy)
      await saver.pin?.(
        session,
        this.all.map(({ path }) => path),
      );
  }

  /** Whole or not at all. */
  async #write(): Promise<void> {
    const { directory } = this.#options;
    await mkdir(directory, { recursive: true });
    const draft = join(directory, `${FILE}.part`);
    await writeFile(draft, `${JSON.stringify(this.#best, null, 2)}\n`);
    await rename(draft, join(directory, FILE));
  }
}
