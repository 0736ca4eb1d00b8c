/** `shoal sweep`: runs a job with several values of its parameters. */

import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isDeepStrictEqual } from 'node:util';
import { EXIT } from '../../../../base/errors/exit-codes.js';
import { requireDirectory } from '../../../../base/files/directories.js';
import { PACKAGE_ROOT } from '../../../../base/files/package.js';
import { modeOf } from '../../../../training/train/hooks/metric-comparison.js';
import type { JobDefinition } from '../../../job/definition/define-job.js';
import { overrideJob } from '../../../job/definition/override-job.js';
import { claimDirectory, removeClusterFile, writeClusterFile } from '../../../job/launcher/cluster-file.js';
import { Screen } from '../../../job/launcher/screen.js';
import { type StopSignals, stopSignals } from '../../../job/launcher/stop-signals.js';
import type { Ranking } from '../../../job/sweep/ranking.js';
import { runSweep } from '../../../job/sweep/run-sweep.js';
import { readTrial, type TrialState } from '../../../job/sweep/trial-file.js';
import { invalidSweep, type Trial, trialsOf } from '../../../job/sweep/trials.js';
import type { ShoalContext } from '../../context.js';
import { EventOutput } from '../../job/event-output.js';
import { loadJob } from '../../job/load-job.js';
import type { SweepFlags } from './command.js';
import { SweepView } from './view.js';

const BIN = fileURLToPath(new URL('bin/shoal.cjs', PACKAGE_ROOT));
/** Locks the directory of a sweep. Not in that directory itself: `shoal status` would take it for a job. */
const LOCK = 'lock';

export async function runSweepCommand(this: ShoalContext, flags: SweepFlags, file: string): Promise<void> {
  using output = flags.json ? new EventOutput('shoal') : undefined;
  try {
    process.exitCode = await sweep(this, flags, resolve(file), output);
  } catch (error) {
    output?.failed(error);
    throw error;
  }
}

async function sweep(
  { rest, outputClosed }: ShoalContext,
  flags: SweepFlags,
  path: string,
  output: EventOutput | undefined,
): Promise<number> {
  const job = overrideJob(await loadJob(path, rest), { lastStep: flags.lastStep });
  const ranking = rankingOf(flags);
  const random = flags.random === undefined ? undefined : { count: flags.random, seed: flags.seed };
  const trials = trialsOf(job, flags.set ?? [], random);
  const dir = resolve(flags.dir ?? join('.shoal', `${job.name}-sweep`));
  requireDirectory(dir, '--dir');
  const lock = join(dir, LOCK);
  claimDirectory(lock);
  const states = trials.map((trial) => ({ trial, state: stateOf(job, trial, dir) }));
  const remaining = states.filter(({ state }) => state.state !== 'done');
  const screen = new Screen({
    stdout: output?.stdout ?? process.stdout,
    stderr: process.stderr,
    env: process.env,
    json: flags.json,
  });
  const view = new SweepView(
    states.map(({ state }) => state),
    { screen, ranking, dir, isJson: flags.json },
  );
  const signals = stopSignals(outputClosed);
  const onStop = () => view.stopping();
  signals.stop.addEventListener('abort', onStop);
  try {
    writeClusterFile(lock, { job: `${job.name} (sweep)`, launcher: process.pid, token: '', agents: [] });
    view.begin(job.name, remaining.length, flags.parallel);
    await runSweep({
      trials: remaining,
      parallel: flags.parallel,
      entry: (trial, home) => ({
        command: process.execPath,
        args: [BIN, 'run', path, '--json', '--dir', home, ...runArguments(flags, trial), '--', ...rest],
      }),
      env: process.env,
      stop: signals.stop,
      kill: signals.kill,
      graceMs: flags.grace * 1000,
      onState: (state) => view.update(state),
      onEvent: (event) => view.event(event),
    });
    view.end(signals.stop.aborted);
    return codeOf(view.states, signals);
  } finally {
    view.close();
    removeClusterFile(lock);
    signals.dispose();
  }
}

function codeOf(states: readonly TrialState[], { stop }: StopSignals): number {
  if (states.every(({ state }) => state === 'done')) return EXIT.done;
  return stop.aborted ? EXIT.interrupted : EXIT.error;
}

function rankingOf({ metric = 'loss', mode = modeOf(metric) }: SweepFlags): Ranking {
  return { metric, mode };
}

const runArguments = ({ ps, workers, lastStep }: SweepFlags, { set }: Trial): readonly string[] => [
  ...set.map((assignment) => `--set=${assignment}`),
  ...(ps === undefined ? [] : [`--ps=${ps}`]),
  ...(workers === undefined ? [] : [`--workers=${workers}`]),
  ...(lastStep === undefined ? [] : [`--last-step=${lastStep}`]),
];

/** What is known of a trial. One that is done has to do more if the last step is a later one. */
function stateOf(job: JobDefinition, trial: Trial, parent: string): TrialState {
  const { name, params, allParams } = trial;
  const { lastStep } = job.train;
  const dir = join(parent, name);
  const fresh: TrialState = {
    trial: name,
    params,
    allParams,
    lastStep,
    state: 'waiting',
    dir,
    starts: 0,
    seconds: 0,
  };
  const known = readTrial(dir);
  if (!known) return fresh;
  if (!isDeepStrictEqual({ ...known.allParams }, { ...allParams }))
    throw invalidSweep(
      `the trial ${name} in ${parent} was run with other parameters: ${JSON.stringify(known.allParams)}, not ${JSON.stringify(allParams)}`,
      'choose another directory with --dir, or remove that of the trial',
    );
  const isDone = known.state === 'done' && known.lastStep >= lastStep;
  // A sweep that was killed has left it as it was.
  return { ...known, dir, lastStep, state: isDone ? 'done' : known.starts > 0 ? 'stopped' : 'waiting' };
}
