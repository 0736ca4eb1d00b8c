/** Runs a TensorFlow 1 style program as one task in its own directory: a ps serves, a worker trains. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { describeError } from '../../../src/base/errors/errors.js';
import { Server } from '../../../src/training/train/index.js';

export const log = (line: string) => console.log(line);

/** Ends the process; on failure, logs the error and exits with 1. */
export async function asTask(train: (server: Server) => Promise<void>): Promise<never> {
  const { values: flags } = parseArgs({
    options: { job_name: { type: 'string' }, task_index: { type: 'string' } },
    strict: false,
  });
  const home = join(process.env.TASKS_ROOT ?? '', `${flags.job_name}-${flags.task_index}`);
  mkdirSync(home, { recursive: true });
  process.chdir(home);
  const server = await Server.start({ log });
  try {
    if (flags.job_name === 'ps') await server.join({ log });
    else await train(server);
    await server.close();
    process.exitCode = 0;
  } catch (error) {
    log(`failed: ${describeError(error)}`);
    process.exitCode = 1;
  }
  process.exit();
}
