/**
 * Between-graph asynchronous training: steps per second of all workers of a cluster on this machine. Then the direct
 * engine with mutual TLS against the same without.
 *
 * `--rounds=3`, `--models=linear,softmax,rows`, `--shapes=1+1,2+3`; these are the defaults.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { initCerts, issueCert } from '../src/cluster/spec/certs.js';
import {
  type ClusterRates,
  type ClusterRun,
  inBothOrders,
  runCluster,
  TURN_START_SECONDS,
} from './cluster/run-cluster.js';
import { type Benchmark, compare, type Row, type Side } from './harness.js';

const ROUNDS = 3;
/** Node compiles the hot code meanwhile, in all processes at once. */
const WARM_SECONDS = 8;
const SECONDS = 5;
/** The turns of two clusters that run at the same time, and how many there are in a round. */
const TURN_SECONDS = 1;
const TURNS = 7;

const MODELS = [
  { id: 'linear', name: 'linear regression', goals: { grpc: [1, 1.5], direct: [3, 4] } },
  { id: 'softmax', name: 'softmax regression, batch 100', goals: { grpc: [1, 1.5], direct: [2.5, 3] } },
  {
    id: 'rows',
    name: 'a row sliced on the ps from eight variables of 64 MB',
    goals: { grpc: [1, 1], direct: [1, 1] },
  },
] as const;
/** The models of the rows about TLS. */
const TLS_MODELS = MODELS.filter(({ id }) => id !== 'rows');
const SHAPES = [
  { ps: 1, workers: 1 },
  { ps: 2, workers: 3 },
];
const ENGINES = ['grpc', 'direct'] as const;
const INFLIGHT = [1, 3] as const;

type Engine = (typeof ENGINES)[number];

export const benchmark: Benchmark = {
  name: 'cluster',
  about: 'steps per second of a cluster, on both engines, against between-graph tf.compat.v1 in Python',
  async run(report, _log, flags) {
    const rounds = Number(flags.get('rounds') ?? ROUNDS);
    const models = flags.get('models')?.split(',') ?? MODELS.map(({ id }) => id);
    const shapes = flags.get('shapes')?.split(',') ?? SHAPES.map(({ ps, workers }) => `${ps}+${workers}`);
    for (const { id, name, goals } of MODELS.filter(({ id }) => models.includes(id))) {
      for (const { ps, workers } of SHAPES.filter(({ ps, workers }) => shapes.includes(`${ps}+${workers}`))) {
        const python: number[] = [];
        const rows = ENGINES.flatMap((engine) =>
          INFLIGHT.map((inflight, at) => ({
            engine,
            inflight,
            goal: goals[engine][at] as number,
            runs: [] as ClusterRates[],
          })),
        );
        for (let round = 0; round < rounds; round++) {
          python.push((await measure('python', id, ps, workers, 1)).rate);
          for (const { engine, inflight, runs } of rows)
            runs.push(await measure('shoal', id, ps, workers, inflight, engine));
        }
        for (const { engine, inflight, goal, runs } of rows) {
          const what = `${name}, ${shapeOf(ps, workers)}, ${engine}, ${inflight} in flight`;
          const rates = runs.map(({ rate }) => rate);
          report(compare('cluster', what, 'steps/s', 'higher', rates, python, goal));
        }
        const perStep = (engine: Engine) =>
          rows
            .filter((row) => row.engine === engine && row.inflight === 1)
            .flatMap(({ runs }) =>
              runs.flatMap(({ cpuMs, rate }) =>
                cpuMs === undefined ? [] : [(1000 * cpuMs) / (rate * SECONDS)],
              ),
            );
        const [direct, grpc] = [perStep('direct'), perStep('grpc')];
        const where = `${name}, ${shapeOf(ps, workers)}, direct against grpc`;
        if (direct.length > 0) {
          const row = compare('cluster', where, 'µs of CPU per step', 'lower', direct, grpc, 1);
          report({ ...row, baselineName: 'grpc engine' });
        }
        const memory = (engine: Engine) =>
          rows
            .filter((row) => row.engine === engine && row.inflight === 1)
            .flatMap(({ runs }) =>
              runs.map(({ psMb, workerMb }) =>
                Math.max(...[...psMb, ...workerMb].map((mb) => mb ?? Number.NaN)),
              ),
            );
        const [own, other] = [memory('direct'), memory('grpc')];
        if (![...own, ...other].some(Number.isNaN)) {
          const row = compare('cluster', `${where}, peak of a task`, 'MB', 'lower', own, other, 1);
          report({ ...row, baselineName: 'grpc engine' });
        }
      }
    }
    await tlsRows(report, rounds, models);
  },
};

const shapeOf = (ps: number, workers: number): string =>
  `${ps} ps + ${workers} worker${workers === 1 ? '' : 's'}`;

/** With TLS at most 1.3 times slower. */
const TLS_GOAL = 1 / 1.3;

async function tlsRows(report: (row: Row) => void, rounds: number, models: readonly string[]): Promise<void> {
  const certs = await mkdtemp(join(tmpdir(), 'shoal-bench-'));
  try {
    await initCerts({ dir: certs });
    await issueCert({ dir: certs, bearer: 'task' });
    for (const { id, name, inflight } of TLS_MODELS.filter(({ id }) => models.includes(id)).flatMap((model) =>
      INFLIGHT.map((inflight) => ({ ...model, inflight })),
    )) {
      const [plain, tls] = await plainAndTls(id, inflight, certs, TURNS * rounds);
      const row = compare(
        'cluster',
        `${name}, ${shapeOf(2, 3)}, mutual TLS, ${inflight} in flight`,
        'steps/s',
        'higher',
        tls,
        plain,
        TLS_GOAL,
      );
      report({ ...row, baselineName: 'without TLS' });
    }
  } finally {
    await rm(certs, { recursive: true, force: true });
  }
}

/** Steps per second without and with TLS. */
async function plainAndTls(
  model: string,
  inflight: number,
  certs: string,
  turns: number,
): Promise<[plain: number[], tls: number[]]> {
  const run = (own?: string): ClusterRun => ({
    side: 'shoal',
    program: 'cluster',
    ps: 2,
    workers: 3,
    settings: {
      model,
      inflight,
      warm: WARM_SECONDS,
      seconds: TURN_SECONDS,
      turnStart: TURN_START_SECONDS,
      certs: own,
    },
    engine: 'direct',
  });
  const [plain, tls] = await inBothOrders(run(), run(certs), turns);
  return [plain.map(({ rate }) => rate), tls.map(({ rate }) => rate)];
}

function measure(
  side: Side,
  model: string,
  ps: number,
  workers: number,
  inflight: number,
  engine?: Engine,
): Promise<ClusterRates> {
  const settings = { model, inflight, warm: WARM_SECONDS, seconds: SECONDS };
  return runCluster({ side, program: 'cluster', ps, workers, settings, ...(engine && { engine }) });
}
