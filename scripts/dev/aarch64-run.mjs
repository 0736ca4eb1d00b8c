/**
 * Runs the two processes of the aarch64 smoke test, ps and worker, side by side; prints each check as it
 * ends and counts. Both programs speak as test/aarch64/reporter.mjs says. Whatever happens, a process that
 * crashes, falls silent or is interrupted included, both are gone when this returns.
 */
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { seconds } from '../setup/progress.mjs';

/** What a program wrote to stderr matters only when it failed, and then its end does. */
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
  let through = false;

  const heard = ({ check, ok, ms, why, ready, ask, done }) => {
    if (check !== undefined && !ok) fail(`${check} (${seconds(ms)})`, why);
    else if (check !== undefined) {
      count.passed++;
      print(`ok   ${check} (${seconds(ms)})`);
    }
    if (ready !== undefined) tasks.worker.answer({ ps: ready });
    if (done) through = true;
    if (ask === 'kill the ps') {
      psEndExpected = true;
      tasks.ps.child.kill('SIGKILL');
      tasks.ps.ended.then(() => tasks.worker.answer({ killed: true }));
    }
  };
  const tasks = {};
  for (const [name, command] of Object.entries({ ps, worker })) {
    tasks[name] = startTask(command, { cwd, env, heard, print: (line) => print(`     ${name}: ${line}`) });
  }

  const psLost = tasks.ps.ended.then((how) => (psEndExpected ? new Promise(() => {}) : { ps: how }));
  const workerEnded = tasks.worker.ended.then((how) => ({ worker: how }));
  const { promise: stopped, clear } = stopper(deadlineMs, signal);
  try {
    const end = await Promise.race([psLost, workerEnded, stopped]);
    signal?.throwIfAborted();
    if (end.deadline) fail('deadline', `not through within ${seconds(deadlineMs)}`);
    else if (end.ps) fail('ps', `it ended before the checks did: ${end.ps}`);
    else if (!through || end.worker !== 'exit code 0') fail('worker', `it ended early: ${end.worker}`);
    if (count.failed > 0) {
      for (const [name, { stderr }] of Object.entries(tasks)) {
        if (stderr() !== '') print(`--- what the ${name} wrote to stderr\n${stderr()}`);
      }
    }
    return count;
  } finally {
    clear();
    for (const { child } of Object.values(tasks)) child.kill('SIGKILL');
    await Promise.all(Object.values(tasks).map(({ ended }) => ended));
  }
}

function startTask([command, ...args], { cwd, env, heard, print }) {
  const child = spawn(command, args, { cwd, env, stdio: ['pipe', 'pipe', 'pipe'] });
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text) => {
    stderr = (stderr + text).slice(-KEPT_STDERR);
  });
  // A program that is gone cannot be answered; that it is gone is noticed by its end.
  child.stdin.on('error', () => {});
  createInterface({ input: child.stdout }).on('line', (line) => {
    if (line.startsWith('{')) heard(JSON.parse(line));
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
