/** Between-graph asynchronous training: steps per second of all workers of a cluster on this machine. */
import { runCluster } from './cluster/run-cluster.js';
import { type Benchmark, compare, type Side } from './harness.js';

const ROUNDS = 3;
const WARM_SECONDS = 2;
const SECONDS = 5;

const MODELS = [
  { id: 'linear', name: "scenario 000's model" },
  { id: 'softmax', name: 'softmax regression, batch 100' },
];
const SHAPES = [
  { ps: 1, workers: 1 },
  { ps: 2, workers: 3 },
];

export const benchmark: Benchmark = {
  name: 'cluster',
  about: 'steps per second of a cluster against between-graph tf.compat.v1 in Python',
  async run(report) {
    for (const { id, name } of MODELS) {
      for (const { ps, workers } of SHAPES) {
        const plain: number[] = [];
        const pipelined: number[] = [];
        const python: number[] = [];
        for (let round = 0; round < ROUNDS; round++) {
          plain.push(await stepsPerSecond('shoal', id, ps, workers, 1));
          python.push(await stepsPerSecond('python', id, ps, workers, 1));
          pipelined.push(await stepsPerSecond('shoal', id, ps, workers, 3));
        }
        const where = `${name}, ${ps} ps + ${workers} workers`;
        report(compare('cluster', where, 'steps/s', 'higher', plain, python, 1));
        report(compare('cluster', `${where}, inflight 3`, 'steps/s', 'higher', pipelined, python, 1.5));
      }
    }
  },
};

async function stepsPerSecond(
  side: Side,
  model: string,
  ps: number,
  workers: number,
  inflight: number,
): Promise<number> {
  const settings = { model, inflight, warm: WARM_SECONDS, seconds: SECONDS };
  return (await runCluster({ side, program: 'cluster', ps, workers, settings })).rate;
}
