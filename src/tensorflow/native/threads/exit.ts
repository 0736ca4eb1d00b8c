/**
 * Exits a process that has threads inside TensorFlow. A normal exit waits for the threads of libuv's pool, and a call
 * that waits for a dead peer never returns: such a process would hang.
 */
import { writeSync } from 'node:fs';
import { inspect } from 'node:util';
import koffi from '../library/ffi.js';

/** Exits immediately: no destructors, no waiting for threads. Output already written to stdout is not lost. */
export function exitImmediately(code: number): never {
  koffi.load(null).func('_exit', 'void', ['int'])(code);
  throw new Error('unreachable');
}

/** Makes every later exit of the process immediate, if `when` returns true at that time. */
export function exitImmediatelyWhen(when: () => boolean = () => true): void {
  let fatal: { readonly error: unknown } | undefined;
  process.once('uncaughtExceptionMonitor', (error) => {
    fatal = { error };
  });
  process.once('exit', (code) => {
    if (!when()) return;
    // Node prints an uncaught error only after the exit listeners, which is too late here.
    if (fatal) writeSync(2, `${inspect(fatal.error)}\n`);
    // An earlier listener may have set another code.
    exitImmediately(typeof process.exitCode === 'number' ? process.exitCode : code);
  });
}
