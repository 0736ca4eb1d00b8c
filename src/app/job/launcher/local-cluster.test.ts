/** The local cluster with real processes: order, signals, restarts, and no processes left behind. */
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { readClusterFile } from './cluster-file.js';
import { type LocalClusterOptions, runLocalCluster } from './local-cluster.js';
import { Screen } from './screen.js';
import type { Plan } from './testing/plan.js';
import { standIns } from './testing/stand-ins.js';

vi.setConfig({ testTimeout: 180_000 });

const LAUNCH = fileURLToPath(new URL('./testing/launch.ts', import.meta.url));

let scratch: string;
let kills: AbortController[];
let launchers: ChildProcess[];

beforeEach(() => {
  scratch = mkdtempSync(join(tmpdir(), 'shoal-launcher-'));
  kills = [];
  launchers = [];
});

afterEach(() => {
  for (const kill of kills) kill.abort();
  for (const child of launchers) child.kill('SIGKILL');
  for (const pid of pids()) if (isAlive(pid)) process.kill(pid, 'SIGKILL');
  rmSync(scratch, { recursive: true, force: true });
});

type Plans = Readonly<Record<string, Plan>>;

const environment = (plans: Plans) => ({
  ...process.env,
  FORCE_COLOR: undefined,
  STAND_IN: JSON.stringify(plans),
  STAND_IN_JOURNAL: join(scratch, 'journal'),
});

/** A cluster of real processes, launched by this one. */
function launch(plans: Plans, options: Partial<LocalClusterOptions> = {}) {
  const output = { stdout: '', stderr: '' };
  const into = (side: 'stdout' | 'stderr') => ({
    write: (text: string) => {
      output[side] += text;
      return true;
    },
  });
  const stop = new AbortController();
  const kill = new AbortController();
  kills.push(kill);
  const ended = runLocalCluster(
    standIns({
      dir: join(scratch, 'cluster'),
      env: environment(plans),
      screen: new Screen({ stdout: into('stdout'), stderr: into('stderr') }),
      stop: stop.signal,
      kill: kill.signal,
      ...options,
    }),
  );
  return { output, ended, stop: () => stop.abort() };
}

/** Like `launch`, with the launcher in a separate process. */
function launchSeparately(plans: Plans, options: Partial<LocalClusterOptions> = {}) {
  const given = JSON.stringify({ dir: join(scratch, 'cluster'), ...options });
  const child = spawn(process.execPath, ['--import', 'tsx', LAUNCH, given], {
    env: environment(plans),
    stdio: 'ignore',
  });
  launchers.push(child);
  const ended = new Promise<number | null>((done) => child.once('close', done));
  return { child, ended };
}

/** The events that the fake tasks recorded, in order. */
const journal = (): string[] =>
  existsSync(join(scratch, 'journal'))
    ? readFileSync(join(scratch, 'journal'), 'utf8').trim().split('\n')
    : [];
const noted = (what: string) =>
  journal().flatMap((line) => (line.startsWith(`${what} `) ? [line.split(' ')[1]!] : []));
const pids = () => journal().map((line) => Number(line.split(' ')[2]));
const pidOf = (name: string) =>
  Number(
    journal()
      .findLast((line) => line.startsWith(`up ${name} `))!
      .split(' ')[2],
  );

/** A zombie counts as dead. */
function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch {
    return false;
  }
  if (process.platform !== 'linux') return true;
  try {
    return !/^\d+ \(.*\) Z/s.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return false;
  }
}

async function until(what: string, holds: () => boolean, timeoutMs = 120_000): Promise<void> {
  const end = Date.now() + timeoutMs;
  while (!holds()) {
    if (Date.now() > end)
      throw new Error(`waited ${timeoutMs} ms until ${what}; journal:\n${journal().join('\n')}`);
    await new Promise((tick) => setTimeout(tick, 20));
  }
}

const allUp = (count: number) => until(`${count} tasks are up`, () => noted('up').length >= count);
const nothingLeft = () => until('nothing is left', () => pids().every((pid) => !isAlive(pid)), 60_000);

describe('a local cluster', () => {
  test('exits with 0 when all workers have finished, and has stopped the ps', async () => {
    const { ended, output } = launch(
      { 'worker-0': { company: 4, exitAfterMs: 50 }, 'worker-1': { company: 4, exitAfterMs: 300 } },
      { ps: 2, workers: 2 },
    );
    expect(await ended).toBe(0);
    expect(noted('left').sort()).toEqual(['ps-0', 'ps-1']);
    expect(output.stdout).toContain('all workers are done');
    await nothingLeft();
  });

  test('gives every task its own directory', async () => {
    await launch({ 'worker-0': { exitAfterMs: 1 }, 'worker-1': { exitAfterMs: 1 } }, { workers: 2 }).ended;
    expect(readdirSync(join(scratch, 'cluster')).sort()).toEqual(['ps-0', 'worker-0', 'worker-1']);
  });

  test('prefixes every line with its task and keeps lines complete', async () => {
    const say = ['first', 'ünïcode ✓', ''];
    const { ended, output } = launch(
      { 'worker-0': { say, complain: ['on the other side'], flood: 70_000, exitAfterMs: 200 } },
      {},
    );
    await ended;
    const lines = output.stdout.split('\n');
    expect(lines).toEqual(expect.arrayContaining(say.map((line) => `worker 0 │ ${line}`)));
    expect(lines).toContain(`worker 0 │ ${'x'.repeat(70_000)}`);
    expect(output.stderr).toContain('worker 0 │ on the other side\n');
    expect(output.stdout).not.toContain('\x1b');
    for (const line of lines.slice(0, -1)) expect(line).toMatch(/^(shoal|ps 0|worker 0) *│ /);
  });

  test('reports the process ids', async () => {
    const { ended, output } = launch({ 'worker-0': { company: 2, exitAfterMs: 1 } });
    await ended;
    expect(output.stdout).toContain(`ps 0 is process ${pidOf('ps-0')}, agent 127.0.0.1:`);
    expect(output.stdout).toContain(`worker 0 (chief) is process ${pidOf('worker-0')}`);
  });

  test('exits with the code of the first task that fails, and shows its last lines', async () => {
    const { ended, output } = launch(
      { 'worker-1': { say: ['the reason'], exitAfterMs: 1, exitCode: 9 } },
      { workers: 2 },
    );
    expect(await ended).toBe(9);
    expect(output.stderr).toMatch(/worker 1 exited with 9; its last lines:\n.*│ {3}up .*\n.*│ {3}the reason/);
    await nothingLeft();
  });

  test('writes a file with its agents that only its owner can read, and removes it at the end', async () => {
    const { stop, ended } = launch({});
    await allUp(2);
    const dir = join(scratch, 'cluster');
    expect(statSync(join(dir, 'cluster.json')).mode & 0o777).toBe(0o600);
    expect(readClusterFile(dir)?.agents).toHaveLength(2);
    stop();
    await ended;
    expect(existsSync(join(dir, 'cluster.json'))).toBe(false);
  });

  test('is refused in the directory of a running cluster', async () => {
    const first = launch({});
    await allUp(2);
    await expect(launch({}).ended).rejects.toThrow(`launched by process ${process.pid}`);
    first.stop();
    expect(await first.ended).toBe(130);
  });

  test('starts in the directory of a cluster that was killed', async () => {
    const first = launchSeparately({});
    await allUp(2);
    first.child.kill('SIGKILL');
    await first.ended;
    await nothingLeft();
    expect(await launch({ 'worker-0': { again: { exitAfterMs: 1 } } }).ended).toBe(0);
  });
});

describe('an evaluator', () => {
  test('has an address in the cluster, and the launcher waits for it when the workers are done', async () => {
    const { ended, output } = launch(
      { 'worker-0': { company: 3, exitAfterMs: 1 }, 'evaluator-0': { company: 3, exitAfterMs: 1000 } },
      { evaluator: true },
    );
    expect(await ended).toBe(0);
    expect(output.stdout).toContain('waiting for evaluator 0');
    expect(output.stdout).toMatch(/evaluator 0 │ up \{"address":"127\.0\.0\.1:\d+"/);
    expect(noted('signalled')).toEqual(['ps-0']);
    await nothingLeft();
  });

  test('that fails does not end the training, but determines the exit code', async () => {
    const { ended, output } = launch(
      {
        'worker-0': { company: 3, exitAfterMs: 1500 },
        'evaluator-0': { company: 3, complain: ['ERROR the reason'], exitAfterMs: 1, exitCode: 9 },
      },
      { evaluator: true },
    );
    expect(await ended).toBe(9);
    // Its error is printed once.
    expect(output.stderr).toMatch(
      /^evaluator 0 │ ERROR the reason\nshoal +│ evaluator 0 exited with 9; its error is above\n$/,
    );
    expect(output.stdout).toMatch(
      /evaluator 0 is not restarted; training continues\n[\s\S]*all workers are done/,
    );
    expect(noted('signalled')).toEqual(['ps-0']);
  });

  test('stops before the chief', async () => {
    const { stop, ended } = launch({}, { evaluator: true });
    await allUp(3);
    stop();
    expect(await ended).toBe(130);
    expect(noted('left')).toEqual(['evaluator-0', 'worker-0', 'ps-0']);
    await nothingLeft();
  });
});

describe('stopping', () => {
  test.each(['SIGINT', 'SIGTERM'] as const)(
    '%s stops workers, then the chief, then the ps',
    async (signal) => {
      const { child, ended } = launchSeparately({}, { ps: 2, workers: 3 });
      await allUp(5);
      child.kill(signal);
      expect(await ended).toBe(130);
      const order = journal().flatMap((line) =>
        /^(signalled|left)/.test(line) ? [line.split(' ', 2).join(' ')] : [],
      );
      const at = (what: string) => order.indexOf(what);
      expect(order).toHaveLength(10);
      for (const worker of ['worker-1', 'worker-2'])
        expect(at(`left ${worker}`)).toBeLessThan(at('signalled worker-0'));
      for (const ps of ['ps-0', 'ps-1']) expect(at('left worker-0')).toBeLessThan(at(`signalled ${ps}`));
      await nothingLeft();
    },
  );

  test('a second signal kills all tasks', async () => {
    const { child, ended } = launchSeparately(
      { 'worker-0': { stubborn: true }, 'worker-1': { stubborn: true } },
      { workers: 2, graceMs: 600_000 },
    );
    await allUp(3);
    child.kill('SIGINT');
    await until('worker 1 was signalled', () => noted('signalled').length > 0);
    child.kill('SIGINT');
    expect(await ended).toBe(130);
    expect(noted('left')).toEqual([]);
    await nothingLeft();
  });

  test('a task that does not stop in time is killed, and the others still stop in order', async () => {
    const { stop, ended, output } = launch({ 'worker-1': { stubborn: true } }, { workers: 2, graceMs: 500 });
    await allUp(3);
    stop();
    expect(await ended).toBe(130);
    expect(output.stdout).toContain('worker 1 did not stop within 0.5 s: killed');
    expect(noted('left')).toEqual(['worker-0', 'ps-0']);
  });

  test('a frozen task does not outlive a stop', async () => {
    const { stop, ended } = launch({}, { graceMs: 300 });
    await allUp(2);
    process.kill(pidOf('worker-0'), 'SIGSTOP');
    stop();
    expect(await ended).toBe(130);
    await nothingLeft();
  });

  test('the children of a task end with the task', async () => {
    const { ended } = launch({ 'worker-0': { offspring: true, exitAfterMs: 200 } }, {});
    expect(await ended).toBe(0);
    expect(noted('offspring')).toHaveLength(1);
    await nothingLeft();
  });

  test('all tasks end with a launcher that is killed, even a frozen one', async () => {
    const { child, ended } = launchSeparately({ 'worker-0': { offspring: true } }, { ps: 2 });
    await allUp(3);
    process.kill(pidOf('ps-1'), 'SIGSTOP');
    child.kill('SIGKILL');
    await ended;
    await nothingLeft();
  });
});

describe('a task that dies', () => {
  test('is restarted at another port, and the others keep running', async () => {
    const { stop, ended, output } = launch({}, { ps: 2 });
    await allUp(3);
    const others = [pidOf('ps-0'), pidOf('worker-0')];
    process.kill(pidOf('ps-1'), 'SIGKILL');
    await allUp(4);
    await until('its line is read', () => output.stdout.split('ps 1     │ up').length === 3);
    const addresses = [...output.stdout.matchAll(/ps 1 +│ up (\{.*\})/g)].map(([, json]) =>
      JSON.parse(json!),
    );
    expect(addresses.map(({ isAgain }) => isAgain)).toEqual([false, true]);
    expect(addresses[0].address).not.toBe(addresses[1].address);
    expect(output.stdout).toContain('ps 1 was killed by SIGKILL; restart 1 of at most 3');
    expect([pidOf('ps-0'), pidOf('worker-0')]).toEqual(others);
    stop();
    expect(await ended).toBe(130);
    await nothingLeft();
  });

  test('is restarted with an empty directory with --wipe', async () => {
    const { stop, ended, output } = launch({}, { wipe: true });
    await allUp(2);
    writeFileSync(join(scratch, 'cluster/ps-0/shard'), 'bytes');
    process.kill(pidOf('ps-0'), 'SIGKILL');
    await allUp(3);
    expect(readdirSync(join(scratch, 'cluster/ps-0'))).toEqual(['was-here']);
    stop();
    await ended;
    expect(output.stdout.match(/"isAgain":true/)).toBeNull();
  });

  test('tells the task which workers have finished', async () => {
    const { ended, output } = launch(
      {
        'worker-0': { company: 3, exitAfterMs: 2000, exitCode: 75, again: { exitAfterMs: 1 } },
        'worker-1': { company: 3, exitAfterMs: 1 },
      },
      { workers: 2 },
    );
    expect(await ended).toBe(0);
    expect(output.stdout).toMatch(/worker 0 │ up \{[^}]*"isAgain":true,"finished":"1"\}/);
    expect(output.stdout.match(/"finished"/g)).toHaveLength(1);
  });

  test('is restarted when it exits with the code for a retry', async () => {
    const { ended, output } = launch(
      { 'worker-0': { exitAfterMs: 1, exitCode: 75, again: { exitAfterMs: 1 } } },
      {},
    );
    expect(await ended).toBe(0);
    expect(output.stdout).toContain('worker 0 exited with 75; restart 1');
  });

  test('fails the cluster with its code after the allowed restarts', async () => {
    const { ended, output } = launch({ 'worker-0': { exitAfterMs: 1, exitCode: 75 } }, { maxRestarts: 2 });
    expect(await ended).toBe(75);
    expect(noted('up').filter((name) => name === 'worker-0')).toHaveLength(3);
    expect(output.stderr).toContain('it failed again after 2 restarts');
  });

  test('ends the cluster when restarts are off', async () => {
    const { ended } = launch({}, { maxRestarts: 0 });
    await allUp(2);
    process.kill(pidOf('ps-0'), 'SIGKILL');
    expect(await ended).toBe(137);
    await nothingLeft();
  });
});
