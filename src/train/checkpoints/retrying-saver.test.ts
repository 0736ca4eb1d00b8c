import { expect, test } from 'vitest';
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
