/** One task of the experiments' job. Every line begins with the time, so that the story can be put together. */
import { resolveConfig } from '../../src/cluster/spec/config.js';
import { messageOf } from '../../src/errors/errors.js';
import { runTask } from '../../src/job/run-task.js';
import job from './linear-regression.js';

const config = resolveConfig({ argv: process.argv.slice(2), env: process.env });
if (config.mode !== 'cluster') throw new Error('tell the cluster by flags or TF_CONFIG');
const say = (line: string) => console.log(`${Date.now()} ${line}`);
const stop = new AbortController();
process.on('SIGINT', () => stop.abort('SIGINT'));
process.on('SIGTERM', () => stop.abort('SIGTERM'));
try {
  process.exitCode = await runTask(job, {
    config,
    dir: process.env.LAB_DISK ?? process.cwd(),
    signal: stop.signal,
    log: say,
  });
} catch (error) {
  say(`failed: ${messageOf(error)}`);
  process.exitCode = 1;
}
process.exit();
