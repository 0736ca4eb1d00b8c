/**
 * Ending a process that has threads inside TensorFlow. An ordinary exit waits for the threads of libuv's pool,
 * and a call that waits for a peer which is gone never returns: such a process would never end.
 */
import { writeSync } from 'node:fs';
import { inspect } from 'node:util';
import koffi from 'koffi';

/** Ends the process at once: no destructors, no waiting for threads. What was written to stdout is out already. */
export function exitAtOnce(code: number): never {
  koffi.load(null).func('_exit', 'void', ['int'])(code);
  throw new Error('unreachable');
}

/** Has the process end in that way whenever it ends. */
export function endAtOnce(when: () => boolean = () => true): void {
  let fatal: { readonly error: unknown } | undefined;
  process.once('uncaughtExceptionMonitor', (error) => {
    fatal = { error };
  });
  process.once('exit', (code) => {
    if (!when()) return;
    // An error that nobody caught: Node tells it after its listeners, which is too late here.
    if (fatal) writeSync(2, `${inspect(fatal.error)}\n`);
    // An earlier listener may have set another code.
    exitAtOnce(typeof process.exitCode === 'number' ? process.exitCode : code);
  });
}
