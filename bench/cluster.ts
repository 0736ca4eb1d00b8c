/**
 * Between-graph asynchronous training through the public API: steps per second of all workers of a cluster on this
 * machine. Both sides are programs of TensorFlow 1 with a Server and a MonitoredTrainingSession, with its defaults and a
 * checkpoint directory. Then the same models as jobs of `shoal run`, and the direct engine with mutual TLS.
 *
 *   --models=linear,softmax,perceptron,dense,rows,gather   default: all
 *   --shapes=1+1,2+2,2+3       ps + workers; default: all of a model
 *   --engines=grpc,direct      default: both, which the rows of one against the other need
 *   --inflight=1,3             steps in flight; default: both
 *   --only=session|job|tls     the kind of rows; default: all
 *   --rounds=3                 for TLS 7 turns each
 *   --warm=8, --seconds=5      of each cluster, before and during a measurement
 *
 * One row: `npm run bench -- cluster --models=dense --shapes=2+2 --engines=direct --inflight=1 --only=session`.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { initCerts, issueCert } from '../src/distributed/cluster/spec/certs.js';
import { type ClusterModel, describeShape, keyOf, MODELS, type Shape } from './cluster/models.js';
import {
  type ClusterRates,
  type ClusterRun,
  ENGINES,
  type Engine,
  inBothOrders,
  runCluster,
  TURN_START_SECONDS,
} from './cluster/run-cluster.js';
import { runJob } from './cluster/run-job.js';
import { type Benchmark, type Better, compare, type Row, type Side } from './harness.js';

const INFLIGHT = [1, 3];
const KINDS = ['session', 'job', 'tls'];
const ROUNDS = 3;
/** Node compiles the hot code meanwhile, in all processes at once. */
const WARM_SECONDS = 8;
const SECONDS = 5;
/** The turns of two clusters that run at the same time, and how many there are in a round. */
const TURN_SECONDS = 1;
const TURNS = 7;
/** With TLS against without. */
const TLS_GOAL = 0.85;

type Report = (row: Row) => void;

interface Choice {
  readonly engines: readonly Engine[];
  readonly inflight: readonly number[];
  readonly kinds: readonly string[];
  readonly rounds: number;
  readonly warm: number;
  readonly seconds: number;
}

export const benchmark: Benchmark = {
  name: 'cluster',
  about: 'steps per second of a cluster, on both engines, against between-graph tf.compat.v1 in Python',
  async run(report, _log, flags) {
    const chosen = <T extends string>(name: string, all: readonly T[]): readonly T[] => {
      const given = flags.get(name)?.split(',') ?? all;
      const unknown = given.filter((one) => !all.includes(one as T));
      if (unknown.length > 0) throw new Error(`--${name} is of ${all.join(', ')}, not ${unknown.join(', ')}`);
      return given as readonly T[];
    };
    const number = (name: string, byDefault: number) => Number(flags.get(name) ?? byDefault);
    const ids = chosen(
      'models',
      MODELS.map(({ id }) => id),
    );
    const keys = chosen('shapes', [...new Set(MODELS.flatMap(({ shapes }) => shapes.map(keyOf)))]);
    const choice: Choice = {
      engines: chosen('engines', ENGINES),
      inflight: chosen('inflight', INFLIGHT.map(String)).map(Number),
      kinds: chosen('only', KINDS),
      rounds: number('rounds', ROUNDS),
      warm: number('warm', WARM_SECONDS),
      seconds: number('seconds', SECONDS),
    };
    const models = MODELS.filter(({ id }) => ids.includes(id));
    const isChosen = (shape: Shape) => keys.includes(keyOf(shape));
    for (const model of models)
      for (const shape of model.shapes.filter(isChosen)) await pythonRows(report, model, shape, choice);
    if (!choice.kinds.includes('tls') || !choice.engines.includes('direct')) return;
    for (const model of models)
      for (const shape of model.tlsShapes.filter(isChosen)) await tlsRows(report, model, shape, choice);
  },
};

async function pythonRows(report: Report, model: ClusterModel, shape: Shape, choice: Choice): Promise<void> {
  const isJob =
    choice.kinds.includes('job') && choice.engines.includes('direct') && model.jobShapes?.includes(shape);
  const sessions = (choice.kinds.includes('session') ? choice.engines : []).flatMap((engine) =>
    choice.inflight.map((inflight) => ({ engine, inflight, runs: [] as ClusterRates[] })),
  );
  const jobs = (isJob ? choice.inflight : []).map((inflight) => ({ inflight, rates: [] as number[] }));
  if (sessions.length + jobs.length === 0) return;
  const { warm, seconds } = choice;
  const python: ClusterRates[] = [];
  for (let round = 0; round < choice.rounds; round++) {
    python.push(await runCluster(clusterRun('python', model, shape, choice, {})));
    for (const { runs, ...variant } of sessions)
      runs.push(await runCluster(clusterRun('shoal', model, shape, choice, variant)));
    for (const { inflight, rates } of jobs)
      rates.push(await runJob({ ...shape, settings: { model: model.id, inflight }, warm, seconds }));
  }
  const row = (what: string, unit: string, better: Better, own: Numbers, other: Numbers, goal: number) =>
    compare('cluster', `${model.name}, ${describeShape(shape)}, ${what}`, unit, better, own, other, goal);
  const steps = (what: string, own: Numbers, other: Numbers, goal: number) =>
    row(what, 'steps/s', 'higher', own, other, goal);
  for (const { engine, inflight, runs } of sessions)
    report(
      steps(`${engine}, ${inflight} in flight`, rates(runs), rates(python), goal(model, engine, inflight)),
    );
  for (const { inflight, rates: own } of jobs)
    report(steps(`shoal run, ${inflight} in flight`, own, rates(python), goal(model, 'direct', inflight)));
  const [direct, grpc] = (['direct', 'grpc'] as const).map((kind) =>
    sessions.filter(({ engine }) => engine === kind),
  ) as [typeof sessions, typeof sessions];
  for (const { inflight, runs } of direct)
    for (const other of grpc.filter((one) => one.inflight === inflight)) {
      const found = steps(`direct against grpc, ${inflight} in flight`, rates(runs), rates(other.runs), 1);
      report({ ...found, baselineName: 'grpc engine' });
    }
  // On systems other than Linux there are no values.
  const costs = (what: string, unit: string, of: (run: ClusterRates) => number) => {
    const [own, other] = [(direct[0]?.runs ?? []).map(of), python.map(of)];
    if (own.length > 0 && ![...own, ...other].some(Number.isNaN))
      report(row(`direct, ${what}`, unit, 'lower', own, other, 1));
  };
  costs(
    'CPU time per step',
    'µs',
    ({ cpuMs = Number.NaN, rate }) => (1000 * cpuMs) / (rate * secondsOf(model, choice)),
  );
  costs('peak memory of a ps', 'MB', ({ psMb }) => highest(psMb));
  costs('peak memory of a worker', 'MB', ({ workerMb }) => highest(workerMb));
}

type Numbers = readonly number[];

const rates = (runs: readonly ClusterRates[]): Numbers => runs.map(({ rate }) => rate);

const highest = (mb: readonly (number | undefined)[]): number =>
  Math.max(...mb.map((one) => one ?? Number.NaN));

const goal = ({ goals }: ClusterModel, engine: Engine, inflight: number): number =>
  goals[engine][inflight === 1 ? 0 : 1];

const secondsOf = ({ length = 1 }: ClusterModel, { seconds }: Choice): number => length * seconds;

function clusterRun(
  side: Side,
  model: ClusterModel,
  shape: Shape,
  choice: Choice,
  { inflight = 1, engine }: { readonly inflight?: number; readonly engine?: Engine },
): ClusterRun {
  const { id } = model;
  const settings = {
    model: id,
    inflight,
    checkpoints: true,
    warm: choice.warm,
    seconds: secondsOf(model, choice),
  };
  return { side, program: 'cluster', ...shape, settings, ...(engine && { engine }) };
}

async function tlsRows(report: Report, model: ClusterModel, shape: Shape, choice: Choice): Promise<void> {
  const certs = await mkdtemp(join(tmpdir(), 'shoal-bench-'));
  try {
    await initCerts({ dir: certs });
    await issueCert({ dir: certs, bearer: 'task' });
    for (const inflight of choice.inflight) {
      const { settings, ...run } = clusterRun('shoal', model, shape, choice, { inflight, engine: 'direct' });
      const seconds = TURN_SECONDS * (model.length ?? 1);
      const inTurns = { ...run, settings: { ...settings, seconds, turnStart: TURN_START_SECONDS } };
      const [plain, tls] = await inBothOrders(inTurns, { ...inTurns, certs }, TURNS * choice.rounds);
      const what = `${model.name}, ${describeShape(shape)}, mutual TLS, ${inflight} in flight`;
      const row = compare('cluster', what, 'steps/s', 'higher', rates(tls), rates(plain), TLS_GOAL);
      report({ ...row, baselineName: 'without TLS' });
    }
  } finally {
    await rm(certs, { recursive: true, force: true });
  }
}
