/**
 * Examples per second of a cluster that trains scenario 001's model from TFRecord files, and the memory of its tasks:
 * Python, and Shoal on both engines with one and with several steps in flight, alternating.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { writeSparseExamples } from '../../examples/sparse-linear/sparse-examples.js';
import {
  type ClusterRates,
  type ClusterRun,
  inBothOrders,
  TURN_START_SECONDS,
} from '../cluster/run-cluster.js';
import { compare, median, type Row, type Side } from '../harness.js';

const [PS, WORKERS, BATCH, IDS] = [2, 2, 1000, 50];
const WARM_SECONDS = 8;
const TURN_SECONDS = 2;
const GOALS = { grpc: 1.5, direct: 2 };
const ENGINES = ['grpc', 'direct'] as const;

export async function clusterRows(
  report: (row: Row) => void,
  log: (line: string) => void,
  flags: ReadonlyMap<string, string>,
): Promise<void> {
  const number = (name: string, byDefault: number) => Number(flags.get(name) ?? byDefault);
  const features = number('features', 30_000_000);
  const turns = number('turns', 15);
  const inflight = number('inflight', 3);
  const where = `sparse FTRL, ${features / 1e6} million rows, ${PS} ps + ${WORKERS} workers`;
  const directory = await mkdtemp(join(tmpdir(), 'shoal-bench-'));
  try {
    const paths = await writeSparseExamples({
      directory,
      records: number('records', 200_000),
      files: 2 * WORKERS,
      features,
      idsPerRecord: IDS,
    });
    const files = Array.from({ length: WORKERS }, (_, i) => paths.filter((_, at) => at % WORKERS === i));
    const run = (side: Side, stepsInFlight: number, engine?: (typeof ENGINES)[number]): ClusterRun => {
      const settings = {
        features,
        batch: BATCH,
        files,
        inflight: stepsInFlight,
        warm: WARM_SECONDS,
        seconds: TURN_SECONDS,
        turnStart: TURN_START_SECONDS,
      };
      const program = 'sparse-cluster';
      return { side, program, ps: PS, workers: WORKERS, settings, ...(engine && { engine }) };
    };
    const only = flags.get('engine');
    const engines = ENGINES.filter((engine) => only === undefined || engine === only);
    const kinds = engines.flatMap((engine) => [1, inflight].map((count) => ({ engine, count })));
    if (kinds.length === 0) throw new Error(`--engine must be ${ENGINES.join(' or ')}, not ${only}`);
    for (const { engine, count } of kinds) {
      const [theirs, ours] = await inBothOrders(run('python', 1), run('shoal', count, engine), turns);
      const name = `${engine}, ${count} in flight`;
      reportSide(report, `${where}, ${name}`, ours, theirs, GOALS[engine]);
      log(`CPU time per step, over all tasks: ${name} ${cpuPerStep(ours)}, Python ${cpuPerStep(theirs)}`);
    }
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

function cpuPerStep(runs: readonly ClusterRates[]): string {
  const each = runs.flatMap(({ cpuMs, rate }) =>
    cpuMs === undefined ? [] : [cpuMs / (rate * (TURN_START_SECONDS + TURN_SECONDS))],
  );
  return each.length > 0 ? `${median(each).toFixed(1)} ms` : 'unknown';
}

function reportSide(
  report: (row: Row) => void,
  name: string,
  ours: readonly ClusterRates[],
  theirs: readonly ClusterRates[],
  goal: number,
): void {
  const examples = (runs: readonly ClusterRates[]) => runs.map(({ rate }) => rate * BATCH);
  report(compare('sparse-ftrl', name, 'examples/s', 'higher', examples(ours), examples(theirs), goal));
  const memory = (what: string, of: (run: ClusterRates) => readonly (number | undefined)[]) => {
    const most = (run: ClusterRates) => Math.max(...of(run).map((mb) => mb ?? Number.NaN));
    const [own, other] = [ours.map(most), theirs.map(most)];
    if ([...own, ...other].some(Number.isNaN)) return;
    report(compare('sparse-ftrl', `${what}: ${name}`, 'MB', 'lower', own, other, 1));
  };
  memory('peak memory of a ps', ({ psMb }) => psMb);
  memory('peak memory of the chief', ({ workerMb }) => workerMb.slice(0, 1));
  memory('peak memory of a worker', ({ workerMb }) => workerMb.slice(1));
}
