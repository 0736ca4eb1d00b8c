import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { manifestBlob } from '../../../distributed/checkpoint/format/names.js';
import { recordEnd } from '../../../distributed/checkpoint/reading/end-record.js';
import { DirectoryStore } from '../../../distributed/store/disk/directory-store.js';
import { defineJob } from '../definition/define-job.js';
import { type EndedJobOptions, EndedJobWatch } from './ended-job.js';
import { blobsIn } from './task-directory.js';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'shoal-ended-'));
});
afterEach(() => {
  vi.useRealTimers();
  rmSync(dir, { recursive: true, force: true });
});

const NAME = 'ended';
const JOB = defineJob({
  name: NAME,
  model: () => {
    throw new Error('no model is built');
  },
  train: { lastStep: 100, checkpoint: {} },
});
const MINUTE = 60_000;

/** Records an end at step 40 on a disk, with the manifest of its checkpoint or without. */
async function ended(store: DirectoryStore, { hasManifest = true } = {}): Promise<void> {
  const last = { sequence: 3, step: 40 };
  if (hasManifest) await store.put(manifestBlob(NAME, { ...last, attempt: 'a' }), Buffer.from('{}'));
  await recordEnd(store, { namespace: NAME, job: NAME, lastStep: 100 }, last, { endedAtMs: 0 });
}

type Present = Readonly<Record<string, 'alive' | 'left'>>;

/** Watches as this task; the members and the transfers are those of the returned object. */
async function watch(self: string, { others, members }: { others?: DirectoryStore; members: Present }) {
  const cluster = { members, transferredAt: Number.NEGATIVE_INFINITY };
  let clock = 0;
  const lines: string[] = [];
  const server = {
    task: {
      task: self,
      isChief: self === '/job:worker/task:0',
      chief: '/job:worker/task:0',
      members: () => Object.entries(cluster.members).map(([task, status]) => ({ task, status })),
      member: (task: string) => cluster.members[task] && { task, status: cluster.members[task] },
      get transferredAt() {
        return cluster.transferredAt;
      },
    },
    isComplete: () => true,
    checkpoints: { store: () => others },
  };
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  const options = { server, dir, log: (line: string) => lines.push(line), now: () => clock };
  const watching = await EndedJobWatch.begin(JOB, options as unknown as EndedJobOptions);
  const pass = async (ms: number, each = () => {}) => {
    for (const end = clock + ms; clock < end && !watching.signal.aborted; ) {
      clock += 250;
      each();
      await vi.advanceTimersByTimeAsync(250);
      // The other tasks are asked with real I/O.
      if (others) await new Promise((tick) => setTimeout(tick, 2));
    }
  };
  return { cluster, lines, pass, now: () => clock, signal: watching.signal };
}

test('a ps of an ended job serves as long as its blobs are read, and some minutes more', async () => {
  await ended(new DirectoryStore(blobsIn(dir)));
  const { cluster, lines, pass, now, signal } = await watch('/job:ps/task:0', {
    members: { '/job:ps/task:0': 'alive' },
  });
  await pass(4 * MINUTE);
  expect(signal.aborted).toBe(false);
  expect(lines).toEqual([
    expect.stringMatching(
      /^the job has ended: its end, at step 40, is recorded on this disk; this ps .* ends after 5 min without/,
    ),
  ]);
  await pass(20 * MINUTE, () => {
    cluster.transferredAt = now();
  });
  await pass(4.9 * MINUTE);
  expect(signal.aborted).toBe(false);
  await pass(MINUTE);
  expect(signal.aborted).toBe(true);
  expect(lines).toHaveLength(2);
});

test('a ps of an ended job goes on serving while a worker is there', async () => {
  await ended(new DirectoryStore(blobsIn(dir)));
  const members: Present = { '/job:ps/task:0': 'alive', '/job:worker/task:1': 'alive' };
  const { lines, pass, signal } = await watch('/job:ps/task:0', { members });
  await pass(30 * MINUTE);
  expect(signal.aborted).toBe(false);
  expect(lines).toEqual([]);
});

test('a worker ends when others have the record and the chief is not there', async () => {
  const others = Object.assign(new DirectoryStore(join(dir, 'others')), { kind: 'peers' });
  await ended(others);
  const { cluster, lines, pass, signal } = await watch('/job:worker/task:1', {
    others,
    members: { '/job:worker/task:0': 'alive', '/job:worker/task:1': 'alive', '/job:ps/task:0': 'alive' },
  });
  await pass(2 * MINUTE);
  // The chief may have restored an earlier step.
  expect(signal.aborted).toBe(false);
  cluster.members = { ...cluster.members, '/job:worker/task:0': 'left' };
  await pass(MINUTE);
  expect(signal.aborted).toBe(true);
  expect(lines.join()).toMatch(/the job has ended: its end, at step 40, is recorded at /);
});

test('a record whose checkpoint is gone does not end a worker', async () => {
  const others = Object.assign(new DirectoryStore(join(dir, 'others')), { kind: 'peers' });
  await ended(others, { hasManifest: false });
  await ended(new DirectoryStore(blobsIn(dir)), { hasManifest: false });
  const { pass, signal } = await watch('/job:worker/task:1', {
    others,
    members: { '/job:worker/task:1': 'alive' },
  });
  await pass(2 * MINUTE);
  expect(signal.aborted).toBe(false);
});
