/**
 * The protocol between the smoke test's programs and the command that runs them: one JSON object per line, results
 * and requests on stdout, answers on stdin.
 */
import { once } from 'node:events';
import { createInterface } from 'node:readline';

export function send(message) {
  process.stdout.write(`${JSON.stringify(message)}\n`);
}

/** Runs one check and reports its result. A check fails by throwing. */
export async function check(name, body) {
  const started = performance.now();
  const took = () => Math.round(performance.now() - started);
  try {
    await body();
    send({ check: name, ok: true, ms: took() });
    return true;
  } catch (error) {
    send({ check: name, ok: false, ms: took(), why: String(error?.stack ?? error) });
    return false;
  }
}

/** Exits when the command that started this process has ended for any reason. */
export function endWithCommand() {
  process.stdin.on('end', () => process.exit(1)).resume();
}

/** Answers from the command, in order of arrival. */
export class Answers {
  #lines = createInterface({ input: process.stdin });
  #waiting = [];

  constructor() {
    this.#lines.on('line', (line) => {
      this.#waiting.push(JSON.parse(line));
      this.#lines.emit('answer');
    });
  }

  async next() {
    while (this.#waiting.length === 0) await once(this.#lines, 'answer');
    return this.#waiting.shift();
  }
}
