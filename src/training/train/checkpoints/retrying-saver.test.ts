import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ShoalError } from '../../../base/errors/errors.js';
import { Graph } from '../../../tensorflow/graph/graph.js';
import { Session } from '../../../tensorflow/session/session.js';
import { FileWriter } from '../../../tensorflow/summary/file-writer.js';
import { RecoveryGuard } from '../recovery/recovery-guard.js';
import { RetryingSaver } from './retrying-saver.js';
import { everySteps, SaveSchedule } from './save-schedule.js';
import { Saver } from './saver.js';

test('saves that are abandoned during one recovery are logged once', async () => {
  using graph = new Graph();
  await using session = Session.open({ graph });
  const recoveryGuard = new RecoveryGuard();
  await recoveryGuard.suspend();
  const runner = { graph, recoveryGuard, run: session.run.bind(session) };
  const lines: string[] = [];
  const log = (line: string) => void lines.push(line);
  const schedule = new SaveSchedule([everySteps(100)]);
  const path = 'not/written/model.ckpt';
  const saves = new RetryingSaver({ saver: () => new Saver(), path, schedule, log });
  expect(await saves.save(runner, 7)).toBe(false);
  expect(await saves.save(runner, 7)).toBe(false);
  expect(schedule.dueInMs).toBeGreaterThan(0);
  expect(schedule.dueInMs).toBeLessThan(60_000);
  expect(lines).toEqual([
    'the save of step 7 was abandoned: the cluster is being recovered; the next save follows',
  ]);
});

test('the last save waits for the one before a ps leaves, and is not made twice', async () => {
  using graph = new Graph();
  await using session = Session.open({ graph });
  const runner = { graph, run: session.run.bind(session) };
  let finish = () => {};
  const written = new Promise<void>((resolve) => {
    finish = resolve;
  });
  const paths: string[] = [];
  const saver = {
    save: async (_: unknown, path: string) => {
      paths.push(path);
      await written;
      return `${path}-7`;
    },
    restore: async () => undefined,
    latest: async () => undefined,
  };
  const saves = new RetryingSaver({ saver: () => saver, path: 'model.ckpt', log: () => {} });
  const held = saves.saveHeld(runner, 7, { ms: 1000, until: new Promise(() => {}) });
  const last = saves.saveLast(runner, 7);
  finish();
  expect(await held).toBe(7);
  expect(await last).toBe(true);
  expect(paths).toEqual(['model.ckpt']);
});

test('a save is no failure because the event file was closed meanwhile', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'shoal-closed-events-'));
  try {
    const writer = new FileWriter(directory);
    using graph = new Graph();
    await using session = Session.open({ graph });
    const saver = {
      save: async (_: unknown, path: string) => {
        await writer.close();
        return `${path}-7`;
      },
      restore: async () => undefined,
      latest: async () => undefined,
    };
    const lines: string[] = [];
    const log = (line: string) => void lines.push(line);
    const saves = new RetryingSaver({ saver: () => saver, path: 'model.ckpt', log, writer });
    expect(await saves.save({ graph, run: session.run.bind(session) }, 7)).toBe(true);
    expect(lines).toEqual([expect.stringMatching(/^saved model\.ckpt-7 in/)]);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
});

const FULL = new ShoalError('SHOAL_NO_SPACE', 'no space', { hint: 'free disk space on host-a:/data' });
const ofSystem = (code: string) => Object.assign(new Error(`${code}: open`), { code, syscall: 'open' });

/** A saver that fails for so many attempts. */
function failing(attempts: number, error: Error = FULL) {
  const lines: string[] = [];
  let left = attempts;
  const saver = {
    save: async (_: unknown, path: string) => {
      if (left-- > 0) throw error;
      return `${path}-7`;
    },
    restore: async () => undefined,
    latest: async () => undefined,
  };
  const log = (line: string) => void lines.push(line);
  return { lines, saves: new RetryingSaver({ saver: () => saver, path: 'model.ckpt', log }) };
}

const RUNNER = { graph: undefined, run: undefined } as never;

test('the last save goes on while a disk is full, and says what to do', async () => {
  const { lines, saves } = failing(4);
  expect(await saves.saveLast(RUNNER, 7, { patienceMs: 60_000 })).toBe(true);
  expect(lines.join('\n')).toMatch(
    /the last checkpoint, of step 7, is not saved yet.*\n.*free disk space on host-a:\/data[\s\S]*\nsaved /,
  );
});

test('a stop ends the wait for a full disk, and the loss is logged', async () => {
  const { lines, saves } = failing(Number.POSITIVE_INFINITY);
  const stop = new AbortController();
  const last = saves.saveLast(RUNNER, 7, { patienceMs: 3_600_000, signal: stop.signal });
  await expect.poll(() => lines.join('\n'), { timeout: 60_000 }).toContain('is not saved yet');
  stop.abort('SIGINT');
  expect(await last).toBe(false);
  expect(lines.at(-1)).toMatch(/could not be saved.*later steps are lost/);
});

test.each([
  [ofSystem('ENOSPC'), 'free disk space;'],
  [ofSystem('EDQUOT'), 'free disk space;'],
  [ofSystem('EIO'), 'make the disk work;'],
  [new ShoalError('SHOAL_UNREACHABLE', 'ps/1 does not answer'), 'make the tasks reach each other;'],
  [new ShoalError('SHOAL_TIMEOUT', 'worker/1 did not pause within 15 s'), 'wait until all tasks answer;'],
])('the last save goes on after %s, and says what to do', async (error, advice) => {
  const { lines, saves } = failing(4, error);
  expect(await saves.saveLast(RUNNER, 7, { patienceMs: 60_000 })).toBe(true);
  expect(lines.join('\n')).toContain(
    `is not saved yet. This process keeps its values in memory; the save is tried again for 1 min: ${advice}`,
  );
});

test.each([
  new ShoalError('SHOAL_FORBIDDEN', 'replaced'),
  ...['EACCES', 'EROFS', 'ENOTDIR', 'ENOENT'].map(ofSystem),
])('the last save is not tried again after %s, which time does not cure', async (error) => {
  const { lines, saves } = failing(Number.POSITIVE_INFINITY, error);
  expect(await saves.saveLast(RUNNER, 7, { patienceMs: 3_600_000 })).toBe(false);
  expect(lines.join('\n')).not.toContain('is not saved yet');
});
