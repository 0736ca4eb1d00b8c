/**
 * Runs the two processes of the aarch64 smoke test, a ps and a worker, concurrently; prints and counts the checks. Both
 * programs use the protocol of test/aarch64/reporter.mjs. Both processes have ended when this returns, also after a
 * crash, a timeout or an interruption.
 */
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { seconds } from '../setup/progress.mjs';

/** How many characters at the end of a program's stderr are kept, to print them if it fails. */
const KEPT_STDERR = 8_000;

/**
 * @param {{ ps: string[], worker: string[], cwd?: string, env?: object, deadlineMs: number,
 *   signal?: AbortSignal, print?: (line: string) => void }} options each program with its arguments
 * @returns {Promise<{ passed: number, failed: number }>}
 */
export async function runChecks({ ps, worker, cwd, env, deadlineMs, signal, print = console.log }) {
  const count = { passed: 0, failed: 0 };
  const fail = (name, why) => {
    count.failed++;
    print(`FAIL ${name}: ${why}`);
  };
  let psEndExpected = false;
  let isDone = false;

  const onMessage = ({ check, ok, ms, why, ready, ask, done }) => {
    if (check !== undefined && !ok) fail(`${check} (${seconds(ms)})`, why);
    else if (check !== undefined) {
      count.passed++;
      print(`ok   ${check} (${seconds(ms)})`);
    }
    if (ready !== undefined) tasks.worker.answer({ ps: ready });
    if (done) isDone = true;
    if (ask === 'kill the ps') {
      psEndExpected = true;
      tasks.ps.child.kill('SIGKILL');
      tasks.ps.ended.then(() => tasks.worker.answer({ killed: true }));
    }
  };
  const tasks = {};
  for (const [name, command] of Object.entries({ ps, worker })) {
    tasks[name] = startTask(command, {
      cwd,
      env,
      onMessage,
      print: (line) => print(`     ${name}: ${line}`),
    });
  }

  const psLost = tasks.ps.ended.then((how) => (psEndExpected ? new Promise(() => {}) : { ps: how }));
  const workerEnded = tasks.worker.ended.then((how) => ({ worker: how }));
  const { promise: stopped, clear } = stopper(deadlineMs, signal);
  try {
    const end = await Promise.race([psLost, workerEnded, stopped]);
    signal?.throwIfAborted();
    if (end.deadline) fail('deadline', `not finished within ${seconds(deadlineMs)}`);
    else if (end.ps) fail('ps', `it ended before the worker: ${end.ps}`);
    else if (!isDone || end.worker !== 'exit code 0') fail('worker', `it ended early: ${end.worker}`);
    if (count.failed > 0) {
      for (const [name, { stderr }] of Object.entries(tasks)) {
        if (stderr() !== '') print(`--- stderr of the ${name}\n${stderr()}`);
      }
    }
    return count;
  } finally {
    clear();
    for (const { child } of Object.values(tasks)) child.kill('SIGKILL');
    await Promise.all(Object.values(tasks).map(({ ended }) => ended));
  }
}

function startTask([command, ...args], { cwd, env, onMessage, print }) {
  const child = spawn(command, args, { cwd, env, stdio: ['pipe', 'pipe', 'pipe'] });
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text) => {
    stderr = (stderr + text).slice(-KEPT_STDERR);
  });
  // A write to a program that has exited fails; its exit is handled below.
  child.stdin.on('error', () => {});
  createInterface({ input: child.stdout }).on('line', (line) => {
    if (line.startsWith('{')) onMessage(JSON.parse(line));
    else print(line);
  });
  const ended = new Promise((resolve) => {
    child.on('error', (error) => resolve(error.message));
    child.on('close', (code, killer) => resolve(killer ? `killed by ${killer}` : `exit code ${code}`));
  });
  const answer = (message) => child.stdin.write(`${JSON.stringify(message)}\n`);
  return { child, ended, answer, stderr: () => stderr.trimEnd() };
}

function stopper(deadlineMs, signal) {
  let clear;
  const promise = new Promise((resolve) => {
    const timer = setTimeout(() => resolve({ deadline: true }), deadlineMs);
    const onAbort = () => resolve({ aborted: true });
    signal?.addEventListener('abort', onAbort, { once: true });
    clear = () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', onAbort);
    };
  });
  return { promise, clear };
}
