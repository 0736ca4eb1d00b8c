/**
 * The size of libuv's thread pool, which runs blocking calls into TensorFlow.
 *
 * libuv reads UV_THREADPOOL_SIZE once, when the first work is queued, and then starts all threads. An ES module
 * entry queues work while it loads (the loader reads files), so user code runs too late to set the variable; a
 * CommonJS entry does not. Node has no API for the pool size, hence:
 * - a variable that was set when the process started took effect;
 * - a variable set later took effect only if the threads had not been started. Code that set it in time records
 *   that in SHOAL_THREAD_POOL as `pid:size`, with the pid because children inherit the environment;
 * - on Linux, threads are counted before and after queueing work: the difference is the pool size if that started
 *   the pool, and 0 if it was running already.
 */
import { readdirSync, readFileSync, stat } from 'node:fs';

const VARIABLE = 'UV_THREADPOOL_SIZE';
const RECORD = 'SHOAL_THREAD_POOL';
const DEFAULT_SIZE = 4;
/** libuv's own bound. */
const LARGEST = 1024;

/** Enough threads for the blocking calls of a busy task; an idle thread costs almost nothing. */
export const SUGGESTED_POOL_SIZE = 64;

export interface ThreadPool {
  /** The maximum number of concurrent blocking calls. */
  readonly size: number;
  /** The source of the size: the environment, set by Shoal in time, or libuv's default. */
  readonly from: 'environment' | 'shoal' | 'default';
  /** False if the variable was set while this process ran, possibly too late. */
  readonly certain: boolean;
}

/** The best known size of this process's pool; does not start it. */
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
 * Sets the size of the pool if its threads do not run yet, starts them, and returns whether that worked. It works in a
 * CommonJS entry before any asynchronous I/O; otherwise start the process with UV_THREADPOOL_SIZE set.
 */
export function sizeThreadPool(size: number): SizingResult {
  const wanted = Math.min(LARGEST, Math.max(1, Math.trunc(size)));
  const refused = (why: string): SizingResult => ({ tookEffect: false, pool: threadPool(), why });
  const before = countThreads();
  if (before === undefined) return refused('this system does not list the threads of a process');
  const previous = process.env[VARIABLE];
  process.env[VARIABLE] = String(wanted);
  // Any work will do; its result is ignored. libuv starts the threads before this returns.
  stat('/', () => {});
  const started = (countThreads() ?? before) - before;
  if (started === wanted) {
    process.env[RECORD] = `${process.pid}:${wanted}`;
    return { tookEffect: true, size: wanted };
  }
  if (previous === undefined) delete process.env[VARIABLE];
  else process.env[VARIABLE] = previous;
  return refused(
    'the thread pool was already started before this call; set UV_THREADPOOL_SIZE before Node starts',
  );
}

function readRecord(): number | undefined {
  const [pid, size] = (process.env[RECORD] ?? '').split(':');
  return Number(pid) === process.pid ? parseSize(size) : undefined;
}

/** The number of threads libuv derives from the variable: 1 if it is not a number, the maximum if it is negative. */
function parseSize(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const value = Number.parseInt(text, 10);
  if (Number.isNaN(value) || value === 0) return 1;
  return value < 0 ? LARGEST : Math.min(LARGEST, value);
}

/** The variable at process start; available on Linux only. */
function initialVariable(): { readonly known: boolean; readonly value?: string | undefined } {
  if (process.platform !== 'linux') return { known: false };
  try {
    const entries = readFileSync('/proc/self/environ', 'utf8').split('\0');
    const entry = entries.find((line) => line.startsWith(`${VARIABLE}=`));
    return { known: true, value: entry?.slice(VARIABLE.length + 1) };
  } catch {
    // /proc may be inaccessible; the size is then uncertain.
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
