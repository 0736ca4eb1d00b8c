/** The end of a process in which TensorFlow runs: bounded, whatever its threads are stuck in. */
import { once } from 'node:events';
import { exitAtOnce } from '../../native/exit.js';

/** A reader that does not read must not hold the end up for longer. */
const FLUSH_MS = 1000;

/** Lets the output out and the `exit` listeners run, then ends without waiting for anybody. */
export async function endProcess(code: number): Promise<never> {
  const flushed = [process.stdout, process.stderr].map((stream) =>
    stream.writableLength > 0 ? once(stream, 'drain').catch(() => {}) : undefined,
  );
  await Promise.race([Promise.all(flushed), new Promise((late) => setTimeout(late, FLUSH_MS))]);
  process.exitCode = code;
  process.emit('exit', code);
  exitAtOnce(code);
}
