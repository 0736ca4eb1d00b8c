/**
 * Checkpoints saved while workers insert and update: each is of one instant. Weights, both slots of FTRL and counters
 * lie on two ps and are changed by every step, so that a step of which a part is saved shows.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { DirectoryReader } from '../../src/formats/range-reader.js';
import { BundleReader } from '../../src/formats/tensor-bundle/bundle-reader.js';
import { Session } from '../../src/session/session.js';
import { globalVariablesInitializer } from '../../src/variables/initialize.js';
import { globalVariables } from '../../src/variables/variable-scope.js';
import { Cluster } from './processes.js';
import { buildTornModel, COLUMNS, LANES, rowsOf, TABLES } from './torn-model.js';

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
  cluster = await Cluster.start('./torn-task.ts', { chief: 1, worker: 1, ps: 2 });
  await Promise.all(['chief/0', 'worker/0'].map((name) => cluster.at(name).ask('begin')));
});
afterAll(() => cluster?.[Symbol.asyncDispose]());

/** Steps of all lanes so far. */
async function made(): Promise<number> {
  const [a, b] = await Promise.all(
    ['chief/0', 'worker/0'].map((name) => cluster.at(name).ask<number>('steps')),
  );
  return a! + b!;
}

async function trainOn(steps: number): Promise<void> {
  const goal = (await made()) + steps;
  while ((await made()) < goal) await new Promise((resolve) => setTimeout(resolve, 50));
}

const pick = (all: Float32Array, lane: number): readonly number[] =>
  rowsOf(lane).flatMap((row) => [...all.subarray(row * COLUMNS, (row + 1) * COLUMNS)]);

/** What a checkpoint says of each lane: how many steps its parts have seen. */
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
  const lanes = await Promise.all(
    Array.from({ length: LANES }, async (_, lane) => ({
      counts: [await int64(`count${lane}_0`), await int64(`count${lane}_1`)],
      tables: tables.map(
        ([weights, accumulators, linears]): Rows => ({
          weights: pick(weights!, lane),
          accumulators: pick(accumulators!, lane),
          linears: pick(linears!, lane),
        }),
      ),
    })),
  );
  return { step: await int64('global_step'), lanes };
}

type State = Awaited<ReturnType<typeof read>>;

/** How often each part of the state was updated: in a state of one instant all say the same. */
function updates({ lanes }: State): readonly (readonly number[])[] {
  return lanes.map(({ counts, tables }) => {
    const seen = tables.flatMap(({ accumulators }) => accumulators.map((sum) => sum - 1));
    return [...new Set([...counts, ...seen])];
  });
}

/** What the rows of a lane are after so many updates, found by making them, one after another. */
async function oracle(counts: ReadonlySet<number>): Promise<ReadonlyMap<number, Rows>> {
  const { graph, lanes } = buildTornModel(() => '');
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
    await session.run(lanes[0]!);
    if (!counts.has(step)) continue;
    const [weights, accumulators, linears] = (await session.run(tables)).map(({ data }) =>
      pick(data as Float32Array, 0),
    );
    after.set(step, { weights: weights!, accumulators: accumulators!, linears: linears! });
  }
  return after;
}

describe('checkpoints of training that goes on', () => {
  const cuts: State[] = [];

  it('are each of one instant: every step is in them with all that it did, or not at all', async () => {
    for (let i = 0; i < 6; i++) {
      await trainOn(20);
      const saved = await cluster.at('chief/0').ask<Saved>('save', { consistency: 'consistent' });
      const state = await read(saved);
      const seen = updates(state);
      for (const [lane, counts] of seen.entries()) expect(counts, `cut ${i}, lane ${lane}`).toHaveLength(1);
      expect(seen.reduce((sum, [count]) => sum + count!, 0)).toBe(state.step);
      expect(saved.prefix).toBe(`model.ckpt-${state.step}`);
      if (i > 0) expect(state.step).toBeGreaterThan(cuts[i - 1]!.step);
      cuts.push(state);
    }
    // All lanes were under way, so that there was something to tear.
    for (const [count] of updates(cuts.at(-1)!)) expect(count).toBeGreaterThan(0);
  });

  it('have the weights and the linear slots that so many updates make, to the bit', async () => {
    expect(cuts.length).toBe(6);
    const all = cuts.flatMap((state) => updates(state).map(([count]) => count!));
    const after = await oracle(new Set(all));
    for (const state of cuts) {
      updates(state).forEach(([count], lane) => {
        for (const rows of state.lanes[lane]!.tables) expect(rows).toEqual(after.get(count!));
      });
    }
  });

  it('are torn when the workers do not rest for them, which is how this test can tell', async () => {
    let torn = 0;
    for (let i = 0; i < 20 && torn === 0; i++) {
      const state = await read(await cluster.at('chief/0').ask<Saved>('save', { consistency: 'relaxed' }));
      const seen = updates(state);
      const sum = seen.reduce((total, [count]) => total + count!, 0);
      if (seen.some((counts) => counts.length > 1) || sum !== state.step) torn += 1;
    }
    expect(torn).toBeGreaterThan(0);
  });

  it('count every step that the workers made', async () => {
    const steps = await Promise.all(
      ['chief/0', 'worker/0'].map((name) => cluster.at(name).ask<number>('end')),
    );
    const state = await read(await cluster.at('chief/0').ask<Saved>('save'));
    expect(state.step).toBe(steps[0]! + steps[1]!);
  });
});
