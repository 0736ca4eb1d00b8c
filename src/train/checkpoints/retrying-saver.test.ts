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
