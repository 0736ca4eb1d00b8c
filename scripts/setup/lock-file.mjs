/**
 * One set-up at a time, by a lock file that names its holder.
 *
 * A holder that died is recognised: on the same host by its process (its start time guards against a
 * reused process id), from elsewhere by a heartbeat, the file's modification time. Only the holder of
 * the short-lived `.break` guard may remove a lock that is not its own, and only after reading it again
 * under the guard; so two waiters never both believe that they broke the same stale lock.
 */
import { randomUUID } from 'node:crypto';
import { mkdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { SetupError } from './errors.mjs';

const HEARTBEAT_MS = 2_000;
const SILENT_MS = 60_000;
const GUARD_MS = 10_000;
const POLL_MS = 200;
const REMIND_MS = 15_000;

/**
 * Runs `task` while holding the lock.
 * @param {string} file
 * @param {{ what: string, waitMs?: number, signal?: AbortSignal, say?: (line: string) => void }} options
 */
export async function withLock(file, { what, waitMs = 1_800_000, signal, say = () => {} }, task) {
  mkdirSync(dirname(file), { recursive: true });
  const mine = JSON.stringify({
    token: randomUUID(),
    pid: process.pid,
    host: hostname(),
    started: startTimeOf(process.pid),
    what,
  });
  await acquire(file, mine, { what, waitMs, signal, say });
  const heart = setInterval(() => {
    // A lock that somebody removed by hand cannot be touched; the work goes on, the end of it is atomic.
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

async function acquire(file, mine, { what, waitMs, signal, say }) {
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
        hint: `See what that process does and end it if it is stuck; then run set-up again. Its lock is ${file}.`,
      });
    }
    if (Date.now() >= remindAt) {
      say(`${what}: waiting for ${holder}`);
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
  // A lock is created and filled in two steps; one that stays empty belongs to nobody.
  if (holder === undefined) return age > HEARTBEAT_MS;
  if (holder.host === hostname() && !isRunning(holder)) return true;
  return age > SILENT_MS;
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

/** When a process started, in the kernel's clock ticks; undefined where /proc does not tell. */
function startTimeOf(pid) {
  const stat = readText(`/proc/${pid}/stat`);
  // The second field is the program's name in parentheses and may hold blanks.
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
