/** Workers that read leased shards with TensorFlow: every record is in one completed step, whichever worker dies. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { isShoalError } from '../../../base/errors/errors.js';
import { Graph } from '../../../tensorflow/graph/graph.js';
import type { Output } from '../../../tensorflow/graph/operation.js';
import { Session } from '../../../tensorflow/session/session.js';
import { type Feeding, startFeeders } from '../dataset/generator.js';
import { fixedLenFeature } from '../dataset/parse-example.js';
import { writeIdRecords } from '../testing/id-records.js';
import type { LedgerSnapshot } from './ledger.js';
import { type LeaseSource, LedgerHost, planShards } from './ledger-host.js';
import { ShardInput, type ShardOptions } from './shards.js';

let folder: string;
const FILES = 2;
const PER_FILE = 30;
const ALL = Array.from({ length: FILES * PER_FILE }, (_, i) => i);

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'shoal-shards-'));
  await writeIdRecords(folder, 's', { files: FILES, perFile: PER_FILE });
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function hostOf(epochs: number): Promise<LedgerHost> {
  const { shards } = await planShards(join(folder, 's-*'), { recordsPerShard: 8 });
  return new LedgerHost({ shards, epochs, seed: 5, shuffleShards: true });
}

/** A worker with its own session. */
class Worker {
  readonly name: string;
  readonly input: ShardInput;
  readonly #session: Session;
  readonly #fetch: { ids: Output<'int64'>; position: Output<'int64'> };
  readonly #feeding: Feeding;

  private constructor(
    name: string,
    input: ShardInput,
    session: Session,
    fetch: { ids: Output<'int64'>; position: Output<'int64'> },
  ) {
    this.name = name;
    this.input = input;
    this.#session = session;
    this.#fetch = fetch;
    this.#feeding = startFeeders(session);
  }

  static async start(name: string, source: LeaseSource, options: ShardOptions = {}): Promise<Worker> {
    const graph = new Graph();
    const { input, init, fetch } = graph.asDefault(() => {
      const input = new ShardInput(options);
      const features = { id: fixedLenFeature([], 'int64') };
      const iterator = input.batch(3).parseExample(features, { parallel: 2 }).prefetch(2).iterator();
      const { value, position } = iterator.getNext();
      return { input, init: iterator.initializer, fetch: { ids: value.id, position } };
    });
    input.connect(source, name);
    const session = Session.open({ graph });
    await session.run(init);
    return new Worker(name, input, session, fetch);
  }

  /** Runs one step; returns its records, undefined at the end. The step counts once it is reported. */
  async step(report = true): Promise<number[] | undefined> {
    try {
      const { ids, position } = await this.#session.run(this.#fetch);
      if (report) await this.input.completed(position);
      return (ids.toArray() as bigint[]).map(Number);
    } catch (error) {
      if (isShoalError(error, 'SHOAL_TF_OUT_OF_RANGE')) return undefined;
      throw error;
    }
  }

  async run(into: number[]): Promise<void> {
    for (;;) {
      const ids = await this.step();
      if (!ids) return;
      into.push(...ids);
    }
  }

  async stop(): Promise<void> {
    await this.#feeding.stop();
    await this.#session.close();
  }
}

const sorted = (ids: readonly number[]) => [...ids].sort((a, b) => a - b);

describe('shards', () => {
  test('are ranges that start at record boundaries', async () => {
    const { shards, records } = await planShards(join(folder, 's-*'), { recordsPerShard: 8 });
    expect(records).toBe(60);
    expect(shards.map((shard) => shard.records)).toEqual([8, 8, 8, 6, 8, 8, 8, 6]);
  });

  test('give one worker every record once in each epoch', async () => {
    const worker = await Worker.start('w0', await hostOf(2));
    const seen: number[] = [];
    await worker.run(seen);
    await worker.stop();
    expect(sorted(seen)).toEqual(ALL.flatMap((id) => [id, id]));
  });

  test('that a restart of the input drops while a step is reported are not counted as consumed', async () => {
    const host = await hostOf(1);
    const worker = await Worker.start('w0', host);
    const counted: number[] = [];
    const stopped = { signal: AbortSignal.abort(), shouldStop: () => true };
    const restarting: LeaseSource = {
      begin: (name) => host.begin(name),
      next: (name, held) => host.next(name, held),
      done: async () => {
        await Promise.all(
          worker.input.createThreads({ run: () => Promise.reject() } as never, stopped as never),
        );
      },
    };
    worker.input.connect(restarting, 'w0', {
      held: () => {},
      consumed: (records) => counted.push(records),
    });
    await worker.step();
    await worker.stop();
    expect(counted).toEqual([]);
  });

  test('give two workers every record once between them', async () => {
    const host = await hostOf(1);
    const workers = await Promise.all(['w0', 'w1'].map((name) => Worker.start(name, host, { shuffle: 4 })));
    const seen: number[] = [];
    await Promise.all(workers.map((worker) => worker.run(seen)));
    await Promise.all(workers.map((worker) => worker.stop()));
    expect(sorted(seen)).toEqual(ALL);
    expect(host.isOver).toBe(true);
  });

  test('of a dead worker continue after its completed steps, however much it had read', async () => {
    const host = await hostOf(1);
    const seen: number[] = [];
    const dead = await Worker.start('w0', host, { shuffle: 4 });
    for (let i = 0; i < 5; i++) seen.push(...((await dead.step()) ?? []));
    // A step that ran but was not applied is never reported.
    await dead.step(false);
    await dead.stop();
    host.lost('w0');
    const successor = await Worker.start('w1', host, { shuffle: 4 });
    await successor.run(seen);
    await successor.stop();
    expect(sorted(seen)).toEqual(ALL);
  });

  test('are restored from a snapshot with the model', async () => {
    const host = await hostOf(1);
    const first = await Worker.start('w0', host, { shuffle: 4 });
    const kept: number[] = [];
    for (let i = 0; i < 4; i++) kept.push(...((await first.step()) ?? []));
    const snapshot = JSON.parse(JSON.stringify(host.snapshot())) as LedgerSnapshot;
    for (let i = 0; i < 6; i++) await first.step();
    host.restore(snapshot);
    await first.stop();
    const second = await Worker.start('w0', host, { shuffle: 4 });
    await second.run(kept);
    await second.stop();
    expect(sorted(kept)).toEqual(ALL);
  });
});
