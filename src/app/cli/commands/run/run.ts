/** `shoal run`: runs a job in this process, or as a cluster of processes on this machine. */
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ShoalError } from '../../../../base/errors/errors.js';
import { requireDirectory } from '../../../../base/files/directories.js';
import { PACKAGE_ROOT } from '../../../../base/files/package.js';
import { type Log, type LogLevel, leveled, logLevelOf } from '../../../../base/text/log.js';
import { refuseOpenHost } from '../../../../distributed/cluster/spec/address-rules.js';
import { engineOf, resolveConfig } from '../../../../distributed/cluster/spec/config.js';
import { type JobDefinition, withoutEvaluation } from '../../../job/definition/define-job.js';
import { overrideJob } from '../../../job/definition/override-job.js';
import { startFresh } from '../../../job/directory/fresh-start.js';
import { jobDirectory, localDirectory, taskDirectory } from '../../../job/directory/task-directory.js';
import { claimDirectory } from '../../../job/launcher/cluster-file.js';
import { dieWithLauncher } from '../../../job/launcher/launcher-watch.js';
import { LAUNCHER, runLocalCluster } from '../../../job/launcher/local-cluster.js';
import { Screen } from '../../../job/launcher/screen.js';
import { type StopSignals, stopSignals } from '../../../job/launcher/stop-signals.js';
import { describeLastEvaluation } from '../../../job/results/last-evaluation.js';
import type { ShoalContext } from '../../context.js';
import { EventOutput } from '../../job/event-output.js';
import { describeFinished } from '../../job/finished.js';
import { loadJob } from '../../job/load-job.js';
import { runHere } from '../../job/run-here.js';
import { taskArguments } from '../../task-flags.js';
import type { RunFlags } from './command.js';

/** The task whose work a single process does. */
const CHIEF = 'worker 0';
const BIN = fileURLToPath(new URL('bin/shoal.cjs', PACKAGE_ROOT));

export async function runJobCommand(this: ShoalContext, flags: RunFlags, file: string): Promise<void> {
  dieWithLauncher();
  using output = flags.json ? new EventOutput(isCluster(flags) ? LAUNCHER : CHIEF) : undefined;
  try {
    await runJob(this, flags, resolve(file), output);
  } catch (error) {
    output?.failed(error);
    throw error;
  }
}

async function runJob(
  { rest, process: { stdout }, outputClosed }: ShoalContext,
  flags: RunFlags,
  path: string,
  output: EventOutput | undefined,
): Promise<void> {
  // Loaded here as well, so that an error in the file is reported once and not by every task.
  const job = overrideJob(await loadJob(path, rest), flags);
  const env = environment(flags, job);
  const home = jobDirectory(job.name, flags.dir);
  if (flags.dir !== undefined) requireDirectory(home, '--dir');
  const screen = new Screen({
    stdout: output?.stdout ?? process.stdout,
    stderr: process.stderr,
    env: process.env,
    json: flags.json,
  });
  const logLevel = flags.logLevel ?? logLevelOf(process.env);
  const logAs = (task: string): Log =>
    flags.json ? screen.log(task, logLevel) : leveled((line) => stdout.write(`${line}\n`), logLevel);
  if (flags.fresh) {
    claimDirectory(home);
    const kept = startFresh(job, home);
    if (kept !== undefined) logAs(LAUNCHER)(`starting over; the former run is kept in ${kept}`);
  }
  const { evaluator, evaluatesHere, evaluated } = evaluationOf(flags, job, home);
  const finished =
    flags.fresh || flags.evaluator ? undefined : await describeFinished(job, { home, evaluator: evaluated });
  for (const line of finished?.lines ?? []) logAs(LAUNCHER)(line);
  if (finished?.isComplete) return;
  const signals = stopSignals(outputClosed);
  try {
    if (!isCluster(flags)) {
      if (flags.evaluator)
        throw noEvaluator('an evaluator is a task of a cluster', 'pass --ps and --workers as well');
      const { endProcess } = await import('../../job/end-process.js');
      signals.kill.addEventListener('abort', () => void endProcess(130));
      process.exitCode = await runHere(evaluatesHere ? job : withoutEvaluation(job), {
        home,
        dir: localDirectory(home),
        signal: signals.stop,
        log: logAs(CHIEF),
        reportsOutputs: flags.json,
      });
      return;
    }
    const parts = { job, path, rest, home, env, evaluator, screen, logLevel, signals };
    process.exitCode = await runCluster(flags, parts);
  } finally {
    signals.dispose();
  }
}

interface ClusterParts {
  readonly job: JobDefinition;
  readonly path: string;
  readonly rest: readonly string[];
  readonly home: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly evaluator: boolean;
  readonly screen: Screen;
  readonly logLevel: LogLevel;
  readonly signals: StopSignals;
}

function runCluster(flags: RunFlags, parts: ClusterParts): Promise<number> {
  const { job, path, rest, home, env, evaluator, screen, logLevel, signals } = parts;
  return runLocalCluster({
    name: job.name,
    ps: flags.ps ?? 1,
    workers: flags.workers ?? 1,
    evaluator,
    dir: home,
    host: flags.host,
    entry: (taskDir) => ({
      command: process.execPath,
      args: [BIN, 'task', path, '--dir', taskDir, ...jobArguments(flags), '--', ...rest],
    }),
    env: { ...env, SHOAL_LOG_LEVEL: logLevel },
    logLevel,
    screen,
    stop: signals.stop,
    kill: signals.kill,
    maxRestarts: flags.restart ? flags.maxRestarts : 0,
    wipe: flags.wipe,
    graceMs: flags.grace * 1000,
    lastStep: job.train.lastStep,
    resumes: job.train.checkpoint !== undefined,
    ...(evaluator && { results: () => describeLastEvaluation(job, home) }),
  });
}

const isCluster = ({ ps, workers }: RunFlags): boolean => ps !== undefined || workers !== undefined;

/** Who evaluates: an evaluator task, the process that trains, or nobody; and in which directory. */
function evaluationOf(flags: RunFlags, job: JobDefinition, home: string) {
  const evaluator = isCluster(flags) && wantsEvaluator(flags, job);
  const evaluatesHere = !isCluster(flags) && job.evaluate !== undefined && flags.evaluator !== false;
  const here = evaluatesHere ? localDirectory(home) : undefined;
  return { evaluator, evaluatesHere, evaluated: evaluator ? taskDirectory(home, 'evaluator', 0) : here };
}

/** The flags of the job, for its tasks. */
function jobArguments({ lastStep, set = [], json }: RunFlags): readonly string[] {
  return [
    ...(json ? ['--json'] : []),
    ...(lastStep === undefined ? [] : [`--last-step=${lastStep}`]),
    ...set.map((assignment) => `--set=${assignment}`),
  ];
}

/** Default: jobs that define `evaluate` and save checkpoints get an evaluator. */
function wantsEvaluator({ evaluator }: RunFlags, { evaluate, train, name }: JobDefinition): boolean {
  if (evaluator && !train.checkpoint) {
    throw noEvaluator(`job ${name} has no checkpoints`, 'write train: { checkpoint: { everySecs: 60 } }');
  }
  return evaluator ?? (evaluate !== undefined && train.checkpoint !== undefined);
}

const noEvaluator = (why: string, hint: string) =>
  new ShoalError('SHOAL_CONFIG', `--evaluator: ${why}`, { hint });

/** The environment of the tasks. Rejects invalid settings before any task starts. */
function environment(flags: RunFlags, job: JobDefinition): Readonly<Record<string, string | undefined>> {
  const { engine, heartbeatMs, deadAfterMs, insecureNetwork } = flags;
  const config = resolveConfig({
    argv: taskArguments({
      engine,
      heartbeatMs,
      deadAfterMs,
      ...(insecureNetwork && { insecureNetwork }),
    }),
    env: { ...process.env, TF_CONFIG: undefined, SHOAL_CONFIG: undefined },
  });
  if (!config.insecureNetwork.value && engineOf(config, job.engine) === 'grpc')
    refuseOpenHost(flags.host, `--host ${flags.host}`);
  return {
    ...process.env,
    ...(engine !== undefined && { SHOAL_ENGINE: engine }),
    ...(heartbeatMs !== undefined && { SHOAL_HEARTBEAT_MS: heartbeatMs }),
    ...(deadAfterMs !== undefined && { SHOAL_DEAD_AFTER_MS: deadAfterMs }),
    ...(insecureNetwork && { SHOAL_INSECURE_NETWORK: '1' }),
  };
}
