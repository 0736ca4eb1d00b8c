/** Runs other programs, and ends them if the signal aborts. */
import { spawn } from 'node:child_process';
import { constants } from 'node:os';
import { fileURLToPath } from 'node:url';
import { SetupError } from './errors.mjs';

const KILL_AFTER_MS = 5_000;
/** The supervisor's exit code, as that of a shell. */
const MISSING = 127;

/** Found from the sources and from the bundle: both are two levels below the package. */
const SUPERVISOR = fileURLToPath(new URL('./supervised.mjs', import.meta.url));

/**
 * Runs a program and returns its output. The program ends with this process, even if that is killed.
 * @returns {Promise<{ code: number, output: string, missing: boolean }>} `missing`: the program does not exist
 */
export function run(command, args, { env = process.env, cwd, signal } = {}) {
  signal?.throwIfAborted();
  return new Promise((resolve, reject) => {
    // The pipe to the supervisor closes when this process ends, in whatever way.
    const child = spawn(process.execPath, ['--no-warnings', SUPERVISOR, command, ...args], {
      env,
      cwd,
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    child.stdin.on('error', () => {});
    let output = '';
    const keep = (chunk) => {
      output += chunk;
    };
    child.stdout.setEncoding('utf8').on('data', keep);
    child.stderr.setEncoding('utf8').on('data', keep);
    const release = endWith(signal, child);
    child.on('error', (error) => {
      release();
      reject(error);
    });
    child.on('close', (code, killer) => {
      release();
      if (signal?.aborted) reject(signal.reason);
      else resolve({ code: exitCode(code, killer), output, missing: code === MISSING });
    });
  });
}

/**
 * Runs a program with this process's standard streams and returns its exit code. A signal that ends this process ends
 * the program and its descendants. On a terminal Ctrl-C reaches the whole process group; elsewhere the program gets its
 * own group, because it may die without ending its children.
 */
export function runAttached(command, args, { env = process.env, cwd } = {}) {
  const grouped = !process.stdin.isTTY;
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { env, cwd, stdio: 'inherit', detached: grouped });
    const send = (name) => {
      if (grouped) killGroup(child.pid, name);
      else if (name !== 'SIGINT') child.kill(name);
    };
    let timer;
    const forward = (name) => {
      send(name);
      timer ??= setTimeout(() => send('SIGKILL'), KILL_AFTER_MS);
    };
    const names = ['SIGINT', 'SIGTERM', 'SIGHUP'];
    for (const name of names) process.on(name, forward);
    const release = () => {
      clearTimeout(timer);
      for (const name of names) process.off(name, forward);
    };
    child.on('error', (error) => {
      release();
      reject(error);
    });
    child.on('close', (code, killer) => {
      if (grouped && timer !== undefined) killGroup(child.pid, 'SIGKILL');
      release();
      resolve(exitCode(code, killer));
    });
  });
}

function killGroup(leader, name) {
  try {
    process.kill(-leader, name);
  } catch (error) {
    if (error.code !== 'ESRCH') throw error;
  }
}

/** Runs `task` with an AbortSignal that SIGINT, SIGTERM and SIGHUP abort, so that it can clean up. */
export async function interruptible(task) {
  const controller = new AbortController();
  const abort = (name) =>
    controller.abort(new SetupError('SHOAL_ABORTED', 'interrupted', `set-up was interrupted by ${name}`));
  const names = ['SIGINT', 'SIGTERM', 'SIGHUP'];
  for (const name of names) process.on(name, abort);
  try {
    return await task(controller.signal);
  } finally {
    for (const name of names) process.off(name, abort);
  }
}

function exitCode(code, killer) {
  return code ?? 128 + (constants.signals[killer] ?? 0);
}

function endWith(signal, child) {
  let timer;
  const end = () => {
    child.kill('SIGTERM');
    timer = setTimeout(() => child.kill('SIGKILL'), KILL_AFTER_MS);
  };
  signal?.addEventListener('abort', end, { once: true });
  return () => {
    clearTimeout(timer);
    signal?.removeEventListener('abort', end);
  };
}
