/**
 * A lock file that names its holder, so that only one set-up runs at a time.
 *
 * A lock is stale if its holder died: among the processes that this one sees it is gone (the start time guards against
 * a reused process id); on another host or in another container its heartbeat, the file's modification time, has stopped. Only the holder of the
 * short-lived `.break` guard may remove the lock of another process, and only after reading it again under the guard,
 * so that two waiters never break the same stale lock.
 */
import { randomUUID } from 'node:crypto';
import { mkdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { SetupError } from './errors.mjs';
import { processSpace } from './process-space.mjs';

const HEARTBEAT_MS = 2_000;
const STALE_MS = 60_000;
const GUARD_MS = 10_000;
const POLL_MS = 200;
const REMIND_MS = 15_000;

/**
 * Runs `task` while holding the lock.
 * @param {string} file
 * @param {{ what: string, waitMs?: number, signal?: AbortSignal, log?: (line: string) => void }} options
 */
export async function withLock(file, { what, waitMs = 1_800_000, signal, log = () => {} }, task) {
  mkdirSync(dirname(file), { recursive: true });
  const mine = JSON.stringify({
    token: randomUUID(),
    pid: process.pid,
    host: hostname(),
    space: processSpace(),
    started: startTimeOf(process.pid),
    what,
  });
  await acquire(file, mine, { what, waitMs, signal, log });
  const heart = setInterval(() => {
    // If the lock was removed by hand, the task continues: it publishes its result atomically.
    if (readText(file) === mine) utimesSync(file, new Date(), new Date());
  }, HEARTBEAT_MS);
  heart.unref();
  const release = () => {
    if (readText(file) === mine) rmSync(file, { force: true });
  };
  process.once('exit', release);
  try {
    return await task();
  } finally {
    clearInterval(heart);
    process.off('exit', release);
    release();
  }
}

async function acquire(file, mine, { what, waitMs, signal, log }) {
  const deadline = Date.now() + waitMs;
  let remindAt = 0;
  while (true) {
    signal?.throwIfAborted();
    if (tryCreate(file, mine)) return;
    const text = readText(file);
    if (text === undefined) continue;
    if (isStale(file, text)) {
      breakLock(file, text);
      continue;
    }
    const holder = describe(text);
    if (Date.now() >= deadline) {
      throw new SetupError('SHOAL_TIMEOUT', 'busy', `${what}: gave up waiting for ${holder}`, {
        hint: `Check that process and end it if it hangs, then run set-up again. Its lock is ${file}.`,
      });
    }
    if (Date.now() >= remindAt) {
      log(`${what}: waiting for ${holder}`);
      remindAt = Date.now() + REMIND_MS;
    }
    await sleep(POLL_MS, undefined, { signal }).catch(() => signal?.throwIfAborted());
  }
}

function tryCreate(file, text) {
  try {
    writeFileSync(file, text, { flag: 'wx' });
    return true;
  } catch (error) {
    if (error.code === 'EEXIST') return false;
    throw error;
  }
}

function isStale(file, text) {
  const age = Date.now() - (statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0);
  const holder = parse(text);
  // A lock is created and filled in two steps; the creator of one that stays empty has died.
  if (holder === undefined) return age > HEARTBEAT_MS;
  if (holder.space === processSpace() && !isRunning(holder)) return true;
  return age > STALE_MS;
}

function breakLock(file, staleText) {
  const guard = `${file}.break`;
  if (!tryCreate(guard, String(process.pid))) {
    const age = Date.now() - (statSync(guard, { throwIfNoEntry: false })?.mtimeMs ?? Date.now());
    if (age > GUARD_MS) rmSync(guard, { force: true });
    return;
  }
  try {
    if (readText(file) === staleText) rmSync(file, { force: true });
  } finally {
    rmSync(guard, { force: true });
  }
}

function isRunning({ pid, started }) {
  try {
    process.kill(pid, 0);
  } catch (error) {
    return error.code === 'EPERM';
  }
  const actual = startTimeOf(pid);
  return started === undefined || actual === undefined || actual === started;
}

/** When a process started, in the kernel's clock ticks; undefined without /proc. */
function startTimeOf(pid) {
  const stat = readText(`/proc/${pid}/stat`);
  // The second field is the program's name in parentheses and may contain spaces.
  return stat?.slice(stat.lastIndexOf(')') + 2).split(' ')[19];
}

function describe(text) {
  const holder = parse(text);
  return holder ? `process ${holder.pid} on ${holder.host} (${holder.what})` : 'another process';
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function readText(file) {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    if (error.code === 'ENOENT' || error.code === 'ESRCH') return undefined;
    throw error;
  }
}
