import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type CheckpointOptions, defineJob } from '../definition/define-job.js';
import { startFresh } from './fresh-start.js';

let home: string;

beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'shoal-fresh-'));
});

afterEach(() => rmSync(home, { recursive: true, force: true }));

const job = (checkpoint: CheckpointOptions = {}) =>
  defineJob({ name: 'small', model: () => ({}) as never, train: { lastStep: 1, checkpoint } });
const NOW = new Date('2026-01-02T03:04:05Z');

test('moves the directories of tasks aside, and nothing else', () => {
  for (const name of ['ps-0', 'worker-0', 'worker-12', 'notes']) mkdirSync(join(home, name));
  writeFileSync(join(home, 'worker-1'), 'a file');
  const kept = startFresh(job(), home, NOW);
  expect(kept).toBe(join(home, 'previous-2026-01-02T03-04-05'));
  expect(readdirSync(kept!).sort()).toEqual(['ps-0', 'worker-0', 'worker-12']);
  expect(readdirSync(home).sort()).toEqual(['notes', 'previous-2026-01-02T03-04-05', 'worker-1']);
  mkdirSync(join(home, 'ps-0'));
  expect(startFresh(job(), home, NOW)).toBe(`${kept}-2`);
});

test('does nothing without a former run', () => {
  expect(startFresh(job(), join(home, 'absent'), NOW)).toBeUndefined();
  expect(startFresh(job(), home, NOW)).toBeUndefined();
  expect(readdirSync(home)).toEqual([]);
});

test.each([{ store: 'file:/nfs/logs' }, { directory: '/nfs/logs' }, { directory: '../logs' }])(
  'refuses checkpoints that may be shared: %o',
  (checkpoint) => {
    mkdirSync(join(home, 'ps-0'));
    expect(() => startFresh(job(checkpoint), home)).toThrow('--fresh: job small keeps its checkpoints in');
    expect(readdirSync(home)).toEqual(['ps-0']);
  },
);
