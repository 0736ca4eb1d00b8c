/**
 * The recovery of training after SIGKILL of a ps, a worker or the chief, on 2 ps and 2 workers with separate
 * directories. The task that was killed returns with an empty directory. The baseline is Python TensorFlow on a
 * directory that all tasks share, where the whole job is started again after the loss of a ps.
 *
 * The start of processes has a row of its own, and is not part of the others. It ends when the agent, or Python's server,
 * listens: TensorFlow is loaded then.
 *
 * `--rounds=20` kills of each kind, `--python-rounds=5` restarts of Python's job between them. These are the defaults.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { messageOf } from '../src/base/errors/errors.js';
import { type Benchmark, compare, median, percentile, type Table } from './harness.js';
import { type Restart, restartOnce } from './recovery/python-round.js';
import { RecoveryCluster, type TaskName } from './recovery/recovery-cluster.js';
import {
  killOnce,
  PHASES,
  type Recovery,
  startTraining,
  toAllSteps,
  toFirstStep,
} from './recovery/shoal-round.js';

const BENCH = 'recovery';
const ROUNDS = 20;
const PYTHON_ROUNDS = 5;
const GOAL = 10;

const VICTIMS = [
  { name: 'ps', task: 'ps 1' },
  { name: 'worker', task: 'worker 1' },
  { name: 'chief', task: 'worker 0' },
] as const satisfies readonly { name: string; task: TaskName }[];
type Victim = (typeof VICTIMS)[number]['name'];

export const benchmark: Benchmark = {
  name: BENCH,
  about: 'the time from SIGKILL of a task to the next step, against a restart of the whole job in Python',
  async run(report, log, flags, show) {
    const rounds = Number(flags.get('rounds') ?? ROUNDS);
    const pythonRounds = Math.min(rounds, Number(flags.get('python-rounds') ?? PYTHON_ROUNDS));
    const python: Restart[] = [];
    /** The recoveries between two restarts of Python's job. */
    const shoal: Record<Victim, Recovery[]>[] = [];
    for (let round = 0; round < pythonRounds; round++) {
      const kills =
        Math.floor(((round + 1) * rounds) / pythonRounds) - Math.floor((round * rounds) / pythonRounds);
      python.push(await inDirectory(restartOnce));
      log(`python: ${millis(python.at(-1)?.start)} start, ${millis(python.at(-1)?.step)} to the next step`);
      shoal.push(await inDirectory((parent) => recoveries(parent, kills, log)));
    }
    const row = (what: string, pick: Measure, baseline: (of: Restart) => number, goal?: number) =>
      report(
        compare(
          BENCH,
          `ps killed: ${what}`,
          'ms',
          'lower',
          shoal.map((group) => median(group.ps.map(pick))),
          python.map(baseline),
          goal,
        ),
      );
    row('to the first step, without the start of processes', toFirstStep, ({ step }) => step, GOAL);
    const all = ({ step, others }: Restart) => step + others;
    row('to steps of all workers, without the start of processes', toAllSteps, all, GOAL);
    row(
      'start of processes',
      ({ start }) => start,
      ({ start }) => start,
    );
    row(
      'to steps of all workers',
      (recovery) => recovery.start + toAllSteps(recovery),
      (restart) => restart.start + all(restart),
    );
    show(phaseTable(shoal, python));
  },
};

/** Kills each kind of task in turn. */
async function recoveries(
  parent: string,
  kills: number,
  log: (line: string) => void,
): Promise<Record<Victim, Recovery[]>> {
  const made: Record<Victim, Recovery[]> = { ps: [], worker: [], chief: [] };
  await using cluster = await RecoveryCluster.create('shoal', parent);
  await startTraining(cluster);
  for (let kill = 0; kill < kills; kill++) {
    for (const { name, task } of VICTIMS) {
      const recovery = await killOnce(cluster, task);
      made[name].push(recovery);
      log(
        `${name}: ${PHASES.map((phase) => `${phase} ${millis(recovery[phase])}`).join(', ')}, ${recovery.lostSteps} steps lost`,
      );
    }
  }
  return made;
}

/** Another program may take a port that was free when it was chosen. */
const ATTEMPTS = 3;
const PORT_IN_USE = /Could not start gRPC server|in use/;

async function inDirectory<T>(work: (directory: string) => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    const directory = await mkdtemp(join(tmpdir(), 'shoal-bench-'));
    try {
      return await work(directory);
    } catch (error) {
      if (attempt === ATTEMPTS || !PORT_IN_USE.test(messageOf(error))) throw error;
    } finally {
      await rm(directory, { recursive: true, force: true });
    }
  }
}

type Measure = (of: Recovery) => number;

/** The columns of Python are about a restart of the whole job. */
function phaseTable(
  groups: readonly Record<Victim, readonly Recovery[]>[],
  python: readonly Restart[],
): Table {
  const quantiles = (values: readonly number[], unit: string) =>
    [0.5, 0.95].map((part) => `${Math.round(percentile(values, part))}${unit}`);
  const line = (what: string, pick: Measure, baseline?: (of: Restart) => number, unit = ' ms') => [
    what,
    ...VICTIMS.flatMap(({ name }) =>
      quantiles(
        groups.flatMap((group) => group[name].map(pick)),
        unit,
      ),
    ),
    ...(baseline ? quantiles(python.map(baseline), unit) : ['', '']),
  ];
  return {
    head: ['', ...VICTIMS.flatMap(({ name }) => [`${name} killed, p50`, 'p95']), 'Python, p50', 'p95'],
    lines: [
      line('detect', ({ detect }) => detect),
      line(
        'start of processes',
        ({ start }) => start,
        ({ start }) => start,
      ),
      line('find the checkpoint', ({ find }) => find),
      line('read and restore it', ({ restore }) => restore),
      line('connect and first step', ({ step }) => step),
      line('to the first step, without the start', toFirstStep, ({ step }) => step),
      line('to steps of all workers, without the start', toAllSteps, ({ step, others }) => step + others),
      line(
        'lost steps',
        ({ lostSteps }) => lostSteps,
        ({ lostSteps }) => lostSteps,
        '',
      ),
    ],
  };
}

const millis = (ms: number | undefined): string => `${Math.round(ms ?? Number.NaN)} ms`;
