/** `shoal task`: reads the task's configuration, loads the job, runs it, exits. */
import { resolve } from 'node:path';
import { EXIT } from '../../../../base/errors/exit-codes.js';
import { requireDirectory } from '../../../../base/files/directories.js';
import { eventLog } from '../../../../base/text/events.js';
import { leveled, logLevelOf } from '../../../../base/text/log.js';
import { refuseOpenNetwork } from '../../../../distributed/cluster/spec/address-rules.js';
import { engineOf, resolveConfig, type TaskConfig } from '../../../../distributed/cluster/spec/config.js';
import { securityOf } from '../../../../distributed/cluster/spec/security.js';
import { parseTaskId, taskId, taskLabel } from '../../../../distributed/cluster/spec/task-id.js';
import { overrideJob } from '../../../job/definition/override-job.js';
import { jobDirectory, localDirectory, taskDirectory } from '../../../job/directory/task-directory.js';
import { finishedWorkersOf } from '../../../job/launcher/finished-workers.js';
import { dieWithLauncher } from '../../../job/launcher/launcher-watch.js';
import { type StopSignals, stopSignals } from '../../../job/launcher/stop-signals.js';
import { stoppedCode } from '../../../job/running/preemption.js';
import type { ShoalContext } from '../../context.js';
import { describeFailure, exitCodeOfFailure } from '../../failure.js';
import { EventOutput } from '../../job/event-output.js';
import { loadJob } from '../../job/load-job.js';
import { runHere } from '../../job/run-here.js';
import { taskArguments } from '../../task-flags.js';
import type { TaskCommandFlags } from './command.js';

/** After a second signal, leave messages that are being sent get this long. */
const LEAVE_MS = 500;

export async function runTaskCommand(
  this: ShoalContext,
  flags: TaskCommandFlags,
  file: string,
): Promise<void> {
  dieWithLauncher();
  const signals = stopSignals(this.outputClosed);
  const { endProcess } = await import('../../job/end-process.js');
  signals.kill.addEventListener('abort', () => {
    setTimeout(() => void endProcess(stoppedCode(signals.stop)), LEAVE_MS).unref();
  });
  const config = resolveConfig({ argv: taskArguments(flags), env: process.env });
  const task = taskLabel(config.mode === 'cluster' ? config.task : taskId('worker', 0));
  using output = flags.json ? new EventOutput(task) : undefined;
  try {
    await run(this, flags, { file, config, signals, task, output });
  } catch (error) {
    output?.failed(error);
    throw error;
  }
}

interface TaskRun {
  readonly file: string;
  readonly config: TaskConfig;
  readonly signals: StopSignals;
  /** The name of the task in log lines. */
  readonly task: string;
  readonly output: EventOutput | undefined;
}

async function run(
  { rest, process: { stdout, stderr } }: ShoalContext,
  flags: TaskCommandFlags,
  { file, config, signals, task, output }: TaskRun,
): Promise<void> {
  const level = flags.logLevel ?? logLevelOf(process.env);
  const log = output
    ? eventLog(output.event, task, level)
    : leveled((line) => stdout.write(`${line}\n`), level);
  const reportsOutputs = flags.json;
  const job = overrideJob(await loadJob(file, rest), flags);
  if (config.mode === 'cluster') refuseOpenNetwork(config, engineOf(config, job.engine));
  const home = jobDirectory(job.name);
  if (config.mode === 'local') {
    const dir = flags.dir === undefined ? localDirectory(home) : resolve(flags.dir);
    if (flags.dir !== undefined) requireDirectory(dir, '--dir');
    const claimed = flags.dir === undefined ? home : dir;
    const code = await runHere(job, { home: claimed, dir, signal: signals.stop, log, reportsOutputs });
    process.exitCode = code === EXIT.interrupted ? stoppedCode(signals.stop) : code;
    signals.dispose();
    return;
  }
  const { job: role, index } = parseTaskId(config.task);
  const dir = flags.dir === undefined ? taskDirectory(home, role, index) : resolve(flags.dir);
  requireDirectory(dir, '--dir');
  const { runTask } = await import('../../../job/running/run-task.js');
  const code = await runTask(job, {
    config,
    dir,
    finishedWorkers: finishedWorkersOf(process.env),
    signal: signals.stop,
    log,
    reportsOutputs,
    security: securityOf(config, config.task),
  }).catch((error: unknown) => {
    output?.failed(error);
    leveled((line) => stderr.write(`${line}\n`), level)(describeFailure(error), 'error');
    return exitCodeOfFailure(error);
  });
  const { endProcess } = await import('../../job/end-process.js');
  // TensorFlow's server cannot be stopped, and calls to a dead peer may never return.
  await endProcess(code);
}
