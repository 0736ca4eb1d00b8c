import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { newLedger, reduceLedger } from '../../../training/input/leases/ledger.js';
import { describeTrainingEvent } from './describe-event.js';
import { describeInput } from './describe-input.js';
import { ExportList } from './exports.js';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'shoal-exports-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

/** An export with a file of 1,000 bytes. */
function exported(version: number, job: string, step: number): string {
  const path = join(directory, String(version));
  mkdirSync(join(path, 'variables'), { recursive: true });
  mkdirSync(join(path, 'assets.extra'));
  writeFileSync(join(path, 'variables/data'), Buffer.alloc(1000));
  writeFileSync(join(path, 'assets.extra/shoal.json'), JSON.stringify({ job, step }));
  return path;
}

test('the exports of a job are those on the disk, the newest first, with what serving processes have of them', async () => {
  const [first, second] = [exported(7, 'mnist', 100), exported(9, 'mnist', 200)];
  exported(8, 'other', 1);
  const list = new ExportList('mnist', [directory, join(directory, 'best')]);
  list.onEvent({ type: 'exported', step: 200, path: second, ms: 40 }, 1);
  const change = { type: 'published', step: 200, path: second } as const;
  list.onEvent({ ...change, server: 'a:1', state: 'publishing', text: '' }, 2);
  list.onEvent({ ...change, server: 'b:1', state: 'publishing', text: '' }, 2);
  list.onEvent({ ...change, server: 'a:1', state: 'published', text: '' }, 3);
  const found = await list.list('/job:worker/task:0');
  expect(found.map(({ version, step, path, ms }) => [version, step, path, ms])).toEqual([
    ['9', 200, second, 40],
    ['7', 100, first, null],
  ]);
  expect(found[0]!.bytes).toBeGreaterThan(1000);
  expect(found[0]!.publications).toEqual([
    { server: 'a:1', state: 'published', at: 3, text: '' },
    { server: 'b:1', state: 'publishing', at: 2, text: '' },
  ]);
});

test('a version that is removed is gone when an event says that something has changed', async () => {
  const path = exported(7, 'mnist', 100);
  const list = new ExportList('mnist', [directory]);
  expect(await list.list('a')).toHaveLength(1);
  rmSync(path, { recursive: true });
  list.onEvent({ type: 'exported', step: 300, path: exported(8, 'mnist', 300), ms: 1 }, 1);
  expect((await list.list('a')).map(({ version }) => version)).toEqual(['8']);
});

test('the timeline tells whether a version serves', () => {
  const event = { type: 'published', step: 5, path: '/x', server: 'a:1', text: '' } as const;
  expect(describeTrainingEvent({ ...event, state: 'published' })).toMatchObject({
    ...{ type: 'published', text: 'step 5 serves at a:1' },
  });
  expect(
    describeTrainingEvent({ ...event, state: 'refused', text: 'it was rolled back there' }),
  ).toMatchObject({
    ...{ type: 'publish-failed', text: 'step 5 does not serve at a:1: it was rolled back there' },
  });
});

test('the input counts leased, consumed and waiting records', () => {
  const shards = [0, 1, 2].map((i) => ({ file: 'x', offset: i, records: 100 }));
  const plan = { shards, epochs: 2, seed: 1, shuffleShards: false };
  let state = newLedger(plan);
  expect(describeInput(state)).toMatchObject({ epoch: 0, records: 300, unleasedShards: 3, leases: 0 });
  for (const worker of ['a', 'b']) state = reduceLedger(state, { type: 'ask', worker }).state;
  state = reduceLedger(state, { type: 'ack', worker: 'a', lease: state.leases[0]!.id, upTo: 40 }).state;
  expect(describeInput(state)).toMatchObject({
    ...{ unleasedShards: 1, leases: 2, holders: 2, leasedRecords: 160, consumed: 40, returned: 0 },
  });
  state = reduceLedger(state, { type: 'lost', worker: 'a' }).state;
  expect(describeInput(state)).toMatchObject({ leases: 1, holders: 1, returned: 1, waiting: 0 });
});
