/**
 * Loaded by every task of the failover cluster before its program (`node --import`): the files `fault`, `clock`
 * and `block` in the working directory disturb the process. They are read at the start and on SIGUSR2.
 *
 *   fault   the fault points of the task, as in SHOAL_FAULT (see src/base/async/fault-point.ts)
 *   block   for how many milliseconds the main thread is blocked, once: the file is removed
 *   clock   by how many milliseconds the wall clock of this process is wrong; the monotonic clock is not affected
 */
import { readFileSync, rmSync } from 'node:fs';
import { isMainThread } from 'node:worker_threads';

const SystemDate = globalThis.Date;
const systemNow = SystemDate.now;
let offsetMs = 0;

SystemDate.now = () => systemNow() + offsetMs;
globalThis.Date = new Proxy(SystemDate, {
  construct: (target, args, self) => Reflect.construct(target, args.length > 0 ? args : [target.now()], self),
});

function read(file) {
  try {
    return readFileSync(file, 'utf8').trim();
  } catch {
    return '';
  }
}

/** The limit of one block, whatever the file says. */
const MOST_BLOCKED_MS = 30_000;

function block() {
  const ms = Number(read('block'));
  if (ms === 0 || !isMainThread) return;
  rmSync('block', { force: true });
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, Math.min(ms, MOST_BLOCKED_MS));
}

function disturb() {
  process.env.SHOAL_FAULT = read('fault');
  offsetMs = Number(read('clock'));
  block();
}

disturb();
process.on('SIGUSR2', disturb);
