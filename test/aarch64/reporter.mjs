/**
 * How the programs of the smoke test speak with the command that runs them: one JSON object a line, results
 * and requests on stdout, answers on stdin.
 */
import { once } from 'node:events';
import { createInterface } from 'node:readline';

export function tell(message) {
  process.stdout.write(`${JSON.stringify(message)}\n`);
}

/** Runs one check and tells what came of it. A check fails by throwing. */
export async function check(name, body) {
  const started = performance.now();
  const took = () => Math.round(performance.now() - started);
  try {
    await body();
    tell({ check: name, ok: true, ms: took() });
    return true;
  } catch (error) {
    tell({ check: name, ok: false, ms: took(), why: String(error?.stack ?? error) });
    return false;
  }
}

/** Ends this process when the command that runs it is gone, however that ended. */
export function endWithCommand() {
  process.stdin.on('end', () => process.exit(1)).resume();
}

/** Answers from the command, in the order in which they come. */
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
