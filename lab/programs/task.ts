/** One task of the experiments' job. Every log line begins with the time, so that logs of tasks can be merged. */

import { runTask } from '../../src/app/job/running/run-task.js';
import { describeError } from '../../src/base/errors/errors.js';
import { resolveConfig } from '../../src/distributed/cluster/spec/config.js';
import job from './linear-regression.js';

const config = resolveConfig({ argv: process.argv.slice(2), env: process.env });
if (config.mode !== 'cluster') throw new Error('no cluster: pass flags or set TF_CONFIG');
const log = (line: string) => console.log(`${Date.now()} ${line}`);
const stop = new AbortController();
process.on('SIGINT', () => stop.abort('SIGINT'));
process.on('SIGTERM', () => stop.abort('SIGTERM'));
try {
  process.exitCode = await runTask(job, {
    config,
    dir: process.env.LAB_DISK ?? process.cwd(),
    signal: stop.signal,
    log,
  });
} catch (error) {
  log(`failed: ${describeError(error)}`);
  process.exitCode = 1;
}
process.exit();
