/** The command that runs the smoke test: whatever its two programs do, it counts correctly and ends both. */
import { expect, test } from 'vitest';
import { type ChecksOptions, runChecks } from '../../scripts/dev/aarch64-run.mjs';

const LONG_MS = 30_000;
const send = (message: object) => `console.log(${JSON.stringify(JSON.stringify(message))});`;
const passed = (check: string) => send({ check, ok: true, ms: 1 });
const WAIT = 'setInterval(() => {}, 1000);';
const PS = `${send({ ready: 'somewhere:1' })} ${WAIT}`;

/** Runs two programs from source; each prints its process id first. */
async function runPrograms(ps: string, worker: string, options: Partial<ChecksOptions> = {}) {
  const lines: string[] = [];
  const program = (source: string) => [
    process.execPath,
    '-e',
    `console.log('pid ' + process.pid); ${source}`,
  ];
  const result = runChecks({
    ps: program(ps),
    worker: program(worker),
    deadlineMs: LONG_MS,
    print: (line) => lines.push(line),
    ...options,
  });
  const text = () => lines.join('\n');
  const pids = () => [...text().matchAll(/pid (\d+)/g)].map(([, pid]) => Number(pid));
  return { result, text, pids };
}

const isRunning = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};

const EXIT = 'process.stdout.write("", () => process.exit(0));';

test('checks of both programs are counted, and the ps is killed at the end', async () => {
  const worker = `process.stdin.once('data', (line) => {
    ${passed('worker')} console.log(JSON.stringify({ check: JSON.parse(line).ps, ok: true, ms: 1 }));
    ${send({ done: true })} ${EXIT} });`;
  const { result, text, pids } = await runPrograms(`${passed('ps')} ${PS}`, worker);
  expect(await result).toEqual({ passed: 3, failed: 0 });
  expect(text()).toContain('ok   somewhere:1');
  expect(pids()).toHaveLength(2);
  expect(pids().filter(isRunning)).toEqual([]);
});

test('a failed check is counted and printed with its reason', async () => {
  const failed = send({ check: 'adding', ok: false, ms: 1, why: 'one and one were three' });
  const { result, text } = await runPrograms(PS, `${failed} ${send({ done: true })} ${EXIT}`);
  expect(await result).toEqual({ passed: 0, failed: 1 });
  expect(text()).toContain('one and one were three');
});

test('a worker that dies is a failure with its last output', async () => {
  const worker = `${passed('first')} console.error('oh no'); process.kill(process.pid, 'SIGABRT');`;
  const { result, text } = await runPrograms(PS, worker);
  expect(await result).toEqual({ passed: 1, failed: 1 });
  expect(text()).toMatch(/FAIL worker: .*SIGABRT.*oh no/s);
});

test('a worker that stops before its last check is a failure', async () => {
  const { result } = await runPrograms(PS, `${passed('first')} ${EXIT}`);
  expect(await result).toEqual({ passed: 1, failed: 1 });
});

test('a ps that dies is a failure and ends the worker', async () => {
  const { result, text, pids } = await runPrograms('process.exit(3);', WAIT);
  expect(await result).toEqual({ passed: 0, failed: 1 });
  expect(text()).toContain('FAIL ps: it ended before the worker: exit code 3');
  expect(pids().filter(isRunning)).toEqual([]);
});

test('the ps is killed at the request of the worker, which gets an answer', async () => {
  const worker = `${send({ ask: 'kill the ps' })}
    process.stdin.on('data', (text) => { if (!String(text).includes('killed')) return;
      ${passed('informed')} ${send({ done: true })} ${EXIT} });`;
  const { result } = await runPrograms(PS, worker);
  expect(await result).toEqual({ passed: 1, failed: 0 });
});

test('a program that prints nothing is killed at the deadline', async () => {
  const { result, text, pids } = await runPrograms(PS, WAIT, { deadlineMs: 1_500 });
  expect(await result).toEqual({ passed: 0, failed: 1 });
  expect(text()).toContain('FAIL deadline');
  expect(pids().filter(isRunning)).toEqual([]);
});

test('an abort ends both programs', async () => {
  const controller = new AbortController();
  const { result, pids } = await runPrograms(PS, WAIT, { signal: controller.signal });
  const refused = expect(result).rejects.toThrow('interrupted');
  await expect.poll(() => pids().length, { timeout: LONG_MS }).toBe(2);
  controller.abort(new Error('interrupted'));
  await refused;
  expect(pids().filter(isRunning)).toEqual([]);
});

test('a program that does not exist is a failure', async () => {
  const { result, text } = await runPrograms(PS, '', { worker: ['./no-such-program'] });
  expect(await result).toEqual({ passed: 0, failed: 1 });
  expect(text()).toMatch(/FAIL worker: .*ENOENT/);
});
