/** A ps and a worker of either side, that train one model: what the checkpoint benchmark looks at. */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { choosePorts } from '../../src/job/launcher/ports.js';
import { oraclePython, Peer, ROOT } from '../harness.js';

export type Side = 'shoal' | 'python';

/**
 * `dense`: large variables that steps read and do not change; `all`: every step changes every byte; `sparse`: tables of
 * which every step changes a thousand rows.
 */
export type Model = 'dense' | 'all' | 'sparse';

/** Steps as the worker saw them, in ms since training began, and the saves among them. */
export interface Trained {
  readonly ends: readonly number[];
  readonly times: readonly number[];
  readonly saves: readonly (readonly [start: number, end: number])[];
  /** For how long steps were told to rest, for each save of Shoal. */
  readonly rests: readonly number[];
}

export class Pair {
  readonly side: Side;
  readonly directory: string;
  readonly ps: Peer;
  readonly worker: Peer;

  private constructor(side: Side, directory: string, ps: Peer, worker: Peer) {
    this.side = side;
    this.directory = directory;
    this.ps = ps;
    this.worker = worker;
  }

  static async start(side: Side, model: Model, mb: number, parent: string): Promise<Pair> {
    const directory = join(parent, `${side}-${model}-${mb}`);
    await mkdir(directory, { recursive: true });
    const [ps, worker] = (await choosePorts('127.0.0.1', 2)).map((port) => `127.0.0.1:${port}`);
    const cluster = { ps: [ps], worker: [worker] };
    const start = (jobName: string): Peer => {
      const env = {
        ...process.env,
        UV_THREADPOOL_SIZE: process.env.UV_THREADPOOL_SIZE ?? '16',
        TF_CPP_MIN_LOG_LEVEL: '3',
        PYTHONUNBUFFERED: '1',
        BENCH: JSON.stringify({ model, mb, directory, cluster, jobName }),
      };
      const [command, script] =
        side === 'shoal' ? [process.execPath, 'checkpoint-task.mjs'] : [oraclePython(), 'checkpoint-task.py'];
      return Peer.start(`${side} ${jobName}`, command, [join(ROOT, 'bench/peers', script)], env);
    };
    return new Pair(side, directory, start('ps'), start('worker'));
  }

  train(seconds: number, saveAt: readonly number[] = [], tail = 0): Promise<Trained> {
    return this.worker.ask({ do: 'train', seconds, saveAt, tail });
  }

  /** Trains, and does something else beside it after `quiet` seconds, which is told as if it were a save. */
  async trainBeside<T>(seconds: number, quiet: number, work: () => Promise<T>): Promise<[Trained, T]> {
    const training = this.train(seconds);
    const begun = performance.now();
    await sleep(quiet * 1000);
    const start = performance.now() - begun;
    const result = await work();
    const end = performance.now() - begun;
    return [{ ...(await training), saves: [[start, end]] }, result];
  }

  save(): Promise<{ ms: number; cpuMs: number; path: string }> {
    return this.worker.ask({ do: 'save' });
  }

  restore(path: string): Promise<{ ms: number }> {
    return this.worker.ask({ do: 'restore', path });
  }

  idle(seconds: number): Promise<{ cpuMs: number }> {
    return this.worker.ask({ do: 'idle', seconds });
  }

  /** They hold nothing that is wanted any more. */
  async end(): Promise<void> {
    await Promise.all([this.worker.kill(), this.ps.kill()]);
  }
}
