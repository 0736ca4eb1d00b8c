/**
 * The size of libuv's thread pool, on which blocking calls into TensorFlow wait.
 *
 * libuv reads UV_THREADPOOL_SIZE once, when the first piece of work is queued, and starts all threads
 * there and then. An ES module entry queues work while it loads (the loader reads files), so by the time
 * user code runs it is too late; a CommonJS entry does not. Node has no call that tells the size, hence:
 * - a variable that was there when the process started took effect;
 * - one that was set afterwards did only if the threads had not been started. Whoever set it in time
 *   says so in SHOAL_THREAD_POOL, as `pid:size`, the pid because children inherit the environment;
 * - where the kernel shows the threads of a process (Linux), they are counted before and after queueing
 *   work: the difference is the pool, if it was started by that, and none if it ran already.
 */
import { readdirSync, readFileSync, stat } from 'node:fs';

const VARIABLE = 'UV_THREADPOOL_SIZE';
const RECORD = 'SHOAL_THREAD_POOL';
const DEFAULT_SIZE = 4;
/** libuv's own bound. */
const LARGEST = 1024;

/** Threads enough for the blocking calls of a busy task; an idle thread costs next to nothing. */
export const SUGGESTED_POOL_SIZE = 64;

export interface ThreadPool {
  /** How many blocking calls can be under way at once. */
  readonly size: number;
  /** Where the size comes from: told by the environment, set by Shoal in time, or libuv's default. */
  readonly from: 'environment' | 'shoal' | 'default';
  /** False where the variable was set while this process ran, and nobody can tell whether in time. */
  readonly certain: boolean;
}

/** The size of this process's pool, as far as it can be known; starts nothing. */
export function threadPool(): ThreadPool {
  const recorded = readRecord();
  if (recorded !== undefined) return { size: recorded, from: 'shoal', certain: true };
  const present = parseSize(process.env[VARIABLE]);
  const initial = initialVariable();
  if (initial.known) {
    const size = parseSize(initial.value);
    if (size !== undefined) return { size, from: 'environment', certain: true };
    return { size: DEFAULT_SIZE, from: 'default', certain: present === undefined };
  }
  if (present === undefined) return { size: DEFAULT_SIZE, from: 'default', certain: true };
  return { size: present, from: 'environment', certain: false };
}

export type SizingResult =
  | { readonly tookEffect: true; readonly size: number }
  | { readonly tookEffect: false; readonly pool: ThreadPool; readonly why: string };

/**
 * Sets the size of the pool if its threads do not run yet, starts them, and says whether that worked.
 * Works in a CommonJS entry, before anything was read asynchronously; elsewhere start the process with
 * UV_THREADPOOL_SIZE set.
 */
export function sizeThreadPool(size: number): SizingResult {
  const wanted = Math.min(LARGEST, Math.max(1, Math.trunc(size)));
  const refused = (why: string): SizingResult => ({ tookEffect: false, pool: threadPool(), why });
  const before = countThreads();
  if (before === undefined) return refused('this system does not show the threads of a process');
  const previous = process.env[VARIABLE];
  process.env[VARIABLE] = String(wanted);
  // Any work will do. Its outcome is of no interest, and libuv starts the threads before this returns.
  stat('/', () => {});
  const started = (countThreads() ?? before) - before;
  if (started === wanted) {
    process.env[RECORD] = `${process.pid}:${wanted}`;
    return { tookEffect: true, size: wanted };
  }
  if (previous === undefined) delete process.env[VARIABLE];
  else process.env[VARIABLE] = previous;
  return refused('its threads were started before; set UV_THREADPOOL_SIZE before Node starts');
}

function readRecord(): number | undefined {
  const [pid, size] = (process.env[RECORD] ?? '').split(':');
  return Number(pid) === process.pid ? parseSize(size) : undefined;
}

/** The number of threads that libuv makes of the variable: one of what is no number, the most of a negative one. */
function parseSize(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const value = Number.parseInt(text, 10);
  if (Number.isNaN(value) || value === 0) return 1;
  return value < 0 ? LARGEST : Math.min(LARGEST, value);
}

/** The variable as it was when this process started; only Linux tells. */
function initialVariable(): { readonly known: boolean; readonly value?: string | undefined } {
  if (process.platform !== 'linux') return { known: false };
  try {
    const entries = readFileSync('/proc/self/environ', 'utf8').split('\0');
    const entry = entries.find((line) => line.startsWith(`${VARIABLE}=`));
    return { known: true, value: entry?.slice(VARIABLE.length + 1) };
  } catch {
    // /proc may be hidden from this process; the size is then only believed, not known.
    return { known: false };
  }
}

function countThreads(): number | undefined {
  if (process.platform !== 'linux') return undefined;
  try {
    return readdirSync('/proc/self/task').length;
  } catch {
    return undefined;
  }
}
