/** Ends a process that runs TensorFlow within a bounded time, even if TensorFlow's threads are blocked. */
import { once } from 'node:events';
import { exitImmediately } from '../../../tensorflow/native/threads/exit.js';

/** The limit for flushing output to a reader that does not read. */
const FLUSH_MS = 1000;

/** Flushes the output and runs the `exit` listeners, then exits without waiting for threads. */
export async function endProcess(code: number): Promise<never> {
  const flushed = [process.stdout, process.stderr].map((stream) =>
    stream.writableLength > 0 ? once(stream, 'drain').catch(() => {}) : undefined,
  );
  await Promise.race([Promise.all(flushed), new Promise((late) => setTimeout(late, FLUSH_MS))]);
  process.exitCode = code;
  process.emit('exit', code);
  exitImmediately(code);
}
