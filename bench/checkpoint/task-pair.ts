/** A ps and a worker of either side that train one model, for the checkpoint benchmark. */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { BenchProcess, localAddresses, type Side } from '../harness.js';

/**
 * `dense`: large variables that steps read and do not change; `all`: every step changes every byte; `sparse`: every
 * step changes a thousand rows of large tables.
 */
export type Model = 'dense' | 'all' | 'sparse';

/** The ends and durations of the worker's steps, and its saves, in ms since the start of training. */
export interface StepTimes {
  readonly ends: readonly number[];
  readonly times: readonly number[];
  readonly saves: readonly (readonly [start: number, end: number])[];
  /** For how long each save of Shoal paused the steps. */
  readonly pauses: readonly number[];
}

export class TaskPair {
  readonly side: Side;
  readonly directory: string;
  readonly ps: BenchProcess;
  readonly worker: BenchProcess;

  private constructor(side: Side, directory: string, ps: BenchProcess, worker: BenchProcess) {
    this.side = side;
    this.directory = directory;
    this.ps = ps;
    this.worker = worker;
  }

  static async start(side: Side, model: Model, mb: number, parent: string): Promise<TaskPair> {
    const directory = join(parent, `${side}-${model}-${mb}`);
    await mkdir(directory, { recursive: true });
    const [ps, worker] = await localAddresses(2);
    const cluster = { ps: [ps], worker: [worker] };
    const start = (jobName: string) =>
      new BenchProcess(side, 'checkpoint-task', {
        name: `${side} ${jobName}`,
        settings: { model, mb, directory, cluster, jobName },
      });
    return new TaskPair(side, directory, start('ps'), start('worker'));
  }

  train(seconds: number, saveAt: readonly number[] = [], tail = 0): Promise<StepTimes> {
    return this.worker.request({ do: 'train', seconds, saveAt, tail });
  }

  /** Trains, and starts `work` after `quiet` seconds. The result reports `work` as if it were a save. */
  async trainDuring<T>(seconds: number, quiet: number, work: () => Promise<T>): Promise<[StepTimes, T]> {
    const training = this.train(seconds);
    const trainingStart = performance.now();
    await sleep(quiet * 1000);
    const start = performance.now() - trainingStart;
    const result = await work();
    const end = performance.now() - trainingStart;
    return [{ ...(await training), saves: [[start, end]] }, result];
  }

  save(): Promise<{ ms: number; cpuMs: number; path: string }> {
    return this.worker.request({ do: 'save' });
  }

  restore(path: string): Promise<{ ms: number }> {
    return this.worker.request({ do: 'restore', path });
  }

  idle(seconds: number): Promise<{ cpuMs: number }> {
    return this.worker.request({ do: 'idle', seconds });
  }

  async kill(): Promise<void> {
    await Promise.all([this.worker.kill(), this.ps.kill()]);
  }
}
