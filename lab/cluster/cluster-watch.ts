/** Waits until the tasks of a failover cluster train, save or exit, as their logs show it. */
import type { Context } from '../experiment.js';
import { until } from '../hosts/proc.js';
import type { FailoverCluster } from './failover-cluster.js';
import { CHIEF, type TaskName, WORKERS } from './failover-tasks.js';

/** From a fault until all workers train and a checkpoint is saved, besides the lateness of the machine. */
export const RECOVERY_MS = 40_000;
/** After this time a wait is given up. */
export const GIVE_UP_MS = 150_000;

export class ClusterWatch {
  readonly #ctx: Context;
  readonly #cluster: FailoverCluster;

  constructor(ctx: Context, cluster: FailoverCluster) {
    this.#ctx = ctx;
    this.#cluster = cluster;
  }

  async until(what: string, holds: () => boolean): Promise<void> {
    await until(
      what,
      () => {
        this.#ctx.signal.throwIfAborted();
        return holds();
      },
      GIVE_UP_MS,
      20,
    );
  }

  /** Waits until each worker has logged a step since a time. */
  async trainsSince(at: number): Promise<void> {
    await this.until('all workers to train', () =>
      WORKERS.every((name) => this.#cluster.stepsSince(name, at).length > 0),
    );
  }

  /** Waits until the chief has acknowledged a save since a time. */
  async savesSince(at: number): Promise<void> {
    const chief = this.#cluster.task(CHIEF);
    await this.until('a checkpoint', () =>
      chief.lines.some((line) => line.at >= at && /^saved model\.ckpt/.test(line.text)),
    );
  }

  async logs(name: TaskName, pattern: RegExp): Promise<void> {
    const task = this.#cluster.task(name);
    await this.until(`${name} to log ${pattern}`, () => task.lines.some(({ text }) => pattern.test(text)));
  }

  /** Waits until a task has exited with one of the codes; returns what happened instead, if anything. */
  async exits(name: TaskName, codes: readonly number[] = [0]): Promise<string | undefined> {
    const { process } = this.#cluster.task(name);
    const exit = await process
      .ended({ timeoutMs: GIVE_UP_MS, signal: this.#ctx.signal })
      .catch(() => undefined);
    if (exit && exit.code !== null && codes.includes(exit.code)) return undefined;
    const what = exit ? `ended with ${exit.signal ?? exit.code}` : 'did not end';
    return `${name} ${what}: ${this.linesOf(name)}`;
  }

  /** The last lines of a task besides those of its steps and events. */
  linesOf(name: TaskName): string {
    const lines = this.#cluster.task(name)?.lines.map(({ text }) => text) ?? [];
    return lines
      .filter((text) => !/^step \d+ of|^event |the cluster token travels/.test(text))
      .slice(-4)
      .join(' | ');
  }
}

export const secs = (ms: number): string => `${(ms / 1000).toFixed(1)} s`;
