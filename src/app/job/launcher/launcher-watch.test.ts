/** A task that watches its launcher, with real processes. */
import { type ChildProcess, spawn } from 'node:child_process';
import { afterEach, expect, test } from 'vitest';
import { LAUNCHER_VARIABLE } from './child.js';

const WATCH = new URL('./launcher-watch.ts', import.meta.url).href;
const started: ChildProcess[] = [];

afterEach(() => {
  for (const child of started.splice(0)) child.kill('SIGKILL');
});

function start(program: string, variable: string | undefined) {
  const code = `import { dieWithLauncher } from '${WATCH}'; dieWithLauncher(); console.log('up'); ${program}`;
  const child = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', code], {
    env: { ...process.env, [LAUNCHER_VARIABLE]: variable },
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
  });
  started.push(child);
  const ended = new Promise<NodeJS.Signals | number | null>((done) =>
    child.once('exit', (exit, signal) => done(signal ?? exit)),
  );
  return { child, ended, up: new Promise((done) => child.stdout!.once('data', done)) };
}

test('a task dies when its launcher disconnects', async () => {
  const { child, ended, up } = start('setInterval(() => {}, 1000);', '1');
  await up;
  child.disconnect();
  expect(await ended).toBe('SIGKILL');
});

test('the watch does not keep a finished task alive', async () => {
  const { ended } = start('', '1');
  expect(await ended).toBe(0);
});

test('a process that no launcher started keeps running', async () => {
  const { child, ended, up } = start('setTimeout(() => process.exit(7), 300);', undefined);
  await up;
  child.disconnect();
  expect(await ended).toBe(7);
});
