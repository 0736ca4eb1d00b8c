/**
 * Checkpoints saved while workers train: each is a consistent snapshot. Weights, both FTRL slots and counters are on two
 * ps, and every step changes all of them, so a partly saved step is detected.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { DirectoryReader } from '../../src/tensorflow/formats/range-reader.js';
import { BundleReader } from '../../src/tensorflow/formats/tensor-bundle/bundle-reader.js';
import { Session } from '../../src/tensorflow/session/session.js';
import { globalVariablesInitializer } from '../../src/tensorflow/variables/initialize.js';
import { globalVariables } from '../../src/tensorflow/variables/variable-scope.js';
import { Cluster } from './processes.js';
import { buildSnapshotModel, COLUMNS, LOOPS, rowsOf, TABLES } from './snapshot-model.js';

interface Saved {
  readonly prefix: string;
  readonly directory: string;
}

interface Rows {
  readonly weights: readonly number[];
  readonly accumulators: readonly number[];
  readonly linears: readonly number[];
}

let cluster: Cluster;
beforeAll(async () => {
  cluster = await Cluster.start('test/checkpoint/snapshot-task.ts', { chief: 1, worker: 1, ps: 2 });
  await Promise.all(['chief/0', 'worker/0'].map((name) => cluster.at(name).ask('begin')));
});
afterAll(() => cluster?.[Symbol.asyncDispose]());

/** The steps of all loops so far. */
async function stepsMade(): Promise<number> {
  const [a, b] = await Promise.all(
    ['chief/0', 'worker/0'].map((name) => cluster.at(name).ask<number>('steps')),
  );
  return a! + b!;
}

async function trainSteps(steps: number): Promise<void> {
  const goal = (await stepsMade()) + steps;
  while ((await stepsMade()) < goal) await new Promise((resolve) => setTimeout(resolve, 50));
}

const pick = (all: Float32Array, loop: number): readonly number[] =>
  rowsOf(loop).flatMap((row) => [...all.subarray(row * COLUMNS, (row + 1) * COLUMNS)]);

/** The state of each loop in a checkpoint. */
async function read({ directory, prefix }: Saved) {
  await using files = new DirectoryReader(directory);
  const bundle = await BundleReader.open(files, prefix);
  const int64 = async (name: string) =>
    Number(Buffer.from(await bundle.read<Uint8Array>(name)).readBigInt64LE());
  const floats = async (name: string) => {
    const bytes = Buffer.from(await bundle.read<Uint8Array>(name));
    return new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
  };
  const tables = await Promise.all(
    TABLES.map((name) => Promise.all([floats(name), floats(`${name}/Ftrl`), floats(`${name}/Ftrl_1`)])),
  );
  const loops = await Promise.all(
    Array.from({ length: LOOPS }, async (_, loop) => ({
      counts: [await int64(`count${loop}_0`), await int64(`count${loop}_1`)],
      tables: tables.map(
        ([weights, accumulators, linears]): Rows => ({
          weights: pick(weights!, loop),
          accumulators: pick(accumulators!, loop),
          linears: pick(linears!, loop),
        }),
      ),
    })),
  );
  return { step: await int64('global_step'), loops };
}

type State = Awaited<ReturnType<typeof read>>;

/** The distinct update counts of each loop's state: one in a consistent snapshot. */
function updates({ loops }: State): readonly (readonly number[])[] {
  return loops.map(({ counts, tables }) => {
    const seen = tables.flatMap(({ accumulators }) => accumulators.map((sum) => sum - 1));
    return [...new Set([...counts, ...seen])];
  });
}

/** The rows of a loop after each of the given numbers of updates, computed one update at a time. */
async function oracle(counts: ReadonlySet<number>): Promise<ReadonlyMap<number, Rows>> {
  const { graph, loops } = buildSnapshotModel(() => '');
  await using session = await Session.create({ graph });
  await session.run(graph.asDefault(() => globalVariablesInitializer(graph)));
  const names = ['table0', 'table0/Ftrl', 'table0/Ftrl_1'];
  const tables = names.map((name) =>
    globalVariables(graph)
      .find((one) => one.name === name)!
      .toOutput(),
  );
  const after = new Map<number, Rows>();
  for (let step = 1; after.size < counts.size; step++) {
    await session.run(loops[0]!);
    if (!counts.has(step)) continue;
    const [weights, accumulators, linears] = (await session.run(tables)).map(({ data }) =>
      pick(data as Float32Array, 0),
    );
    after.set(step, { weights: weights!, accumulators: accumulators!, linears: linears! });
  }
  return after;
}

describe('checkpoints during training', () => {
  const states: State[] = [];

  it('are consistent: each contains every step completely or not at all', async () => {
    for (let i = 0; i < 6; i++) {
      await trainSteps(20);
      const saved = await cluster.at('chief/0').ask<Saved>('save', { consistency: 'consistent' });
      const state = await read(saved);
      const seen = updates(state);
      for (const [loop, counts] of seen.entries()) expect(counts, `save ${i}, loop ${loop}`).toHaveLength(1);
      expect(seen.reduce((sum, [count]) => sum + count!, 0)).toBe(state.step);
      expect(saved.prefix).toBe(`model.ckpt-${state.step}`);
      if (i > 0) expect(state.step).toBeGreaterThan(states[i - 1]!.step);
      states.push(state);
    }
    // All loops were running, so an inconsistent snapshot was possible.
    for (const [count] of updates(states.at(-1)!)) expect(count).toBeGreaterThan(0);
  });

  it('contain exactly the weights and linear slots that their update counts produce', async () => {
    expect(states.length).toBe(6);
    const all = states.flatMap((state) => updates(state).map(([count]) => count!));
    const after = await oracle(new Set(all));
    for (const state of states) {
      updates(state).forEach(([count], loop) => {
        for (const rows of state.loops[loop]!.tables) expect(rows).toEqual(after.get(count!));
      });
    }
  });

  it('are inconsistent when the workers do not pause, which proves that these tests detect it', async () => {
    let inconsistent = 0;
    for (let i = 0; i < 20 && inconsistent === 0; i++) {
      const state = await read(await cluster.at('chief/0').ask<Saved>('save', { consistency: 'relaxed' }));
      const seen = updates(state);
      const sum = seen.reduce((total, [count]) => total + count!, 0);
      if (seen.some((counts) => counts.length > 1) || sum !== state.step) inconsistent += 1;
    }
    expect(inconsistent).toBeGreaterThan(0);
  });

  it('count every step that the workers made', async () => {
    const steps = await Promise.all(
      ['chief/0', 'worker/0'].map((name) => cluster.at(name).ask<number>('end')),
    );
    const state = await read(await cluster.at('chief/0').ask<Saved>('save'));
    expect(state.step).toBe(steps[0]! + steps[1]!);
  });
});
