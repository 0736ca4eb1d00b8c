/**
 * A chief that cannot be reached is stopped with SIGSTOP during a save, and a successor starts. When the old process
 * resumes, it does not know of the successor: the others reject its writes and deletes, or an answer reports first
 * that it was replaced, and it exits.
 */
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { choosePorts } from '../../src/app/job/launcher/ports.js';
import { Cluster, type Failure, type Task } from './processes.js';

interface Listed {
  readonly step: number;
  readonly problems: readonly string[];
}

/** So slow that the old chief does not discover its successor by heartbeat. */
const NO_HEARTBEAT = { SHOAL_HEARTBEAT_MS: '600000', SHOAL_DEAD_AFTER_MS: '6000000' };

let cluster: Cluster;
let old: Task;
beforeEach(async () => {
  cluster = await Cluster.start('test/checkpoint/task.ts', { chief: 1, worker: 1, ps: 2 }, (task) =>
    task === 'chief/0' ? NO_HEARTBEAT : {},
  );
  old = cluster.at('chief/0');
});
afterEach(() => cluster?.[Symbol.asyncDispose]());

async function save(chief: Task, step: number): Promise<void> {
  await chief.ask('set', { step });
  expect(await chief.ask('save')).toBe(`checkpoints/model.ckpt-${step}`);
}

const REFUSED_OR_REPLACED = /^SHOAL_FORBIDDEN|^EXIT .*exit code 76/;

const describeFailure = (error: unknown): string =>
  `${(error as Failure).code} ${(error as Failure).message}`;

/** The error of a save, or `saved …`. */
const refusalOf = (outcome: Promise<unknown>): Promise<string> =>
  outcome.then((saved) => `saved ${saved}`, describeFailure);

/** Starts a save in which the old chief stops at a fault point; its outcome arrives after `continue`. */
async function stopIn(fault: string, step: number): Promise<{ readonly outcome: Promise<unknown> }> {
  await old.ask('set', { step });
  await old.ask('close-agent');
  await old.ask('fault', { fault });
  const outcome = old.ask('save');
  outcome.catch(() => {});
  await old.stopped();
  return { outcome };
}

async function startSuccessor(directory: string, env: NodeJS.ProcessEnv = {}): Promise<Task> {
  const [port] = await choosePorts('127.0.0.1', 1);
  const successor = cluster.launch('chief/0', { SHOAL_LISTEN: `127.0.0.1:${port}`, ...env }, directory);
  await successor.ask('wait');
  return successor;
}

const verified = (...steps: readonly number[]): readonly Listed[] =>
  steps.map((step) => ({ step, problems: [] }));

/** The steps of the manifests on the disk of a task. */
function stepsOn(directory: string): readonly number[] {
  const folder = join(cluster.directory(directory), 'blobs/job/manifests');
  return existsSync(folder) ? readdirSync(folder).map((name) => Number(name.split('-')[1])) : [];
}

describe('a chief that is stopped between its health check and its manifest', () => {
  // A failed attempt uses up a sequence number: the next one is above the highest that a successor sees.
  const fault = 'checkpoint.index.before#1=error,checkpoint.manifest.before=stop';

  it.each([
    ['on another disk', 'successor/0'],
    ['on the same disk', 'chief/0'],
  ])('publishes nothing when it continues beside a successor %s', async (_, directory) => {
    await save(old, 1);
    const { outcome } = await stopIn(fault, 2);
    const successor = await startSuccessor(directory);
    expect(await successor.ask('restore')).toMatchObject({ prefix: 'model.ckpt-1', found: 1 });
    await save(successor, 3);

    old.continue();
    expect(await refusalOf(outcome)).toMatch(REFUSED_OR_REPLACED);
    expect(await successor.ask('verify')).toEqual(verified(3, 1));
    for (const place of ['chief/0', 'worker/0', 'ps/0', 'ps/1']) expect(stepsOn(place)).not.toContain(2);
    expect(await successor.ask('restore')).toMatchObject({ prefix: 'model.ckpt-3', found: 3 });
  });
});

describe('a chief that is stopped before it removes old checkpoints', () => {
  it('removes nothing when it continues beside a successor that keeps them', async () => {
    await save(old, 1);
    await save(old, 2);
    const { outcome } = await stopIn('checkpoint.manifest.after=stop', 3);
    const successor = await startSuccessor('chief/0', { TASK_KEEP: '10' });
    await save(successor, 4);

    old.continue();
    // Its own checkpoint was committed before it was replaced.
    const ended = await outcome.catch(describeFailure);
    if (ended === 'checkpoints/model.ckpt-3')
      expect(old.log.join('\n')).toMatch(/the cleanup after it failed: .*has been replaced/);
    else expect(ended).toMatch(REFUSED_OR_REPLACED);
    expect(await successor.ask('verify')).toEqual(verified(4, 3, 2, 1));
  });
});
