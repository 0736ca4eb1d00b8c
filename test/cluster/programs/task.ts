/** Runs one task of the job in the file of the first argument; exits with the code of `runTask`. */
import { mkdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { JobDefinition } from '../../../src/app/job/definition/define-job.js';
import { runTask } from '../../../src/app/job/running/run-task.js';
import { describeError } from '../../../src/base/errors/errors.js';
import { resolveConfig } from '../../../src/distributed/cluster/spec/config.js';
import { parseTaskId } from '../../../src/distributed/cluster/spec/task-id.js';

const [file, ...argv] = process.argv.slice(2);
const { default: job } = (await import(pathToFileURL(resolve(file as string)).href)) as {
  default: JobDefinition;
};
const config = resolveConfig({ argv, env: process.env });
if (config.mode !== 'cluster') throw new Error('no cluster is configured: pass flags or set TF_CONFIG');
const { TASKS_ROOT = '' } = process.env;
const { job: role, index } = parseTaskId(config.task);
// A separate directory for each task.
const dir = join(TASKS_ROOT, `${role}-${index}`);
mkdirSync(dir, { recursive: true });
const stop = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => stop.abort(signal));
try {
  process.exitCode = await runTask(job, {
    config,
    dir,
    signal: stop.signal,
    log: (line) => console.log(line),
  });
} catch (error) {
  console.log(`failed: ${describeError(error)}`);
  process.exitCode = 1;
}
process.exit();
