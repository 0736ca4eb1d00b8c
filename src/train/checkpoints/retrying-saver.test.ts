import { expect, test } from 'vitest';
import { ShoalError } from '../../errors/errors.js';
import { Graph } from '../../graph/graph.js';
import { Session } from '../../session/session.js';
import { RecoveryGuard } from '../recovery/recovery-guard.js';
import { RetryingSaver } from './retrying-saver.js';
import { Saver } from './saver.js';

test('saves that are abandoned during one recovery are logged once', async () => {
  using graph = new Graph();
  await using session = Session.open({ graph });
  const recoveryGuard = new RecoveryGuard();
  await recoveryGuard.suspend();
  const runner = { graph, recoveryGuard, run: session.run.bind(session) };
  const lines: string[] = [];
  const log = (line: string) => void lines.push(line);
  const saves = new RetryingSaver({ saver: () => new Saver(), path: 'not/written/model.ckpt', log });
  expect(await saves.save(runner, 7)).toBe(false);
  expect(await saves.save(runner, 7)).toBe(false);
  expect(saves.retryInMs).toBeGreaterThan(0);
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

/** A saver whose disk is full for so many attempts. */
function fullDisk(attempts: number, code: 'SHOAL_NO_SPACE' | 'SHOAL_FORBIDDEN' = 'SHOAL_NO_SPACE') {
  const lines: string[] = [];
  let left = attempts;
  const saver = {
    save: async (_: unknown, path: string) => {
      if (left-- > 0) throw new ShoalError(code, 'no space', { hint: 'free disk space on host-a:/data' });
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
  const { lines, saves } = fullDisk(4);
  expect(await saves.saveLast(RUNNER, 7, { patienceMs: 60_000 })).toBe(true);
  expect(lines.join('\n')).toMatch(
    /THE LAST CHECKPOINT, of step 7, IS NOT SAVED YET.*\n.*free disk space on host-a:\/data[\s\S]*\nsaved /,
  );
});

test('a stop ends the wait for a full disk, and the loss is logged', async () => {
  const { lines, saves } = fullDisk(Number.POSITIVE_INFINITY);
  const stop = new AbortController();
  const last = saves.saveLast(RUNNER, 7, { patienceMs: 3_600_000, signal: stop.signal });
  await expect.poll(() => lines.join('\n'), { timeout: 60_000 }).toContain('IS NOT SAVED YET');
  stop.abort('SIGINT');
  expect(await last).toBe(false);
  expect(lines.at(-1)).toMatch(/COULD NOT BE SAVED.*later steps are lost/);
});

test('the last save is not tried again for what no disk causes', async () => {
  const { lines, saves } = fullDisk(Number.POSITIVE_INFINITY, 'SHOAL_FORBIDDEN');
  expect(await saves.saveLast(RUNNER, 7, { patienceMs: 3_600_000 })).toBe(false);
  expect(lines.join('\n')).not.toContain('IS NOT SAVED YET');
});
