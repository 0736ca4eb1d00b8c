/**
 * Messages between two processes on loopback, through the connections of the direct engine and through a bare socket of
 * Node that carries the same bytes. The bare receiver copies them to memory that it uses again each time; the receiver of
 * tensors allocates new memory for each. Then complete runs that read a variable of a ps, or assign a fed value to it: the
 * direct engine against TensorFlow's.
 */
import { type Benchmark, BenchProcess, compare, localAddresses, type Row } from './harness.js';

const ROUNDS = 9;
const SIZES_MB = [1, 16, 256];
/** Bytes per measurement, in messages of each size. */
const MB_PER_ROUND = 512;
const SECONDS = 0.7;
const BASELINE = 'bare socket';

export const benchmark: Benchmark = {
  name: 'wire',
  about: 'messages with tensors between two processes on loopback, against a bare socket of Node',
  async run(report) {
    const receiver = new BenchProcess('shoal', 'wire', { name: 'receiver' });
    const sender = new BenchProcess('shoal', 'wire', { name: 'sender' });
    const row = async (name: string, unit: string, request: object, goal?: number): Promise<void> => {
      const found = { shoal: [] as number[], bare: [] as number[] };
      for (let round = 0; round <= ROUNDS; round++) {
        const order = ['shoal', 'bare'] as const;
        for (const via of round % 2 === 0 ? order : order.toReversed()) {
          const { value } = await sender.request<{ value: number }>({ ...request, via });
          // The first round warms up.
          if (round > 0) found[via].push(value);
        }
      }
      report({
        ...compare('wire', name, unit, 'higher', found.shoal, found.bare, goal),
        baselineName: BASELINE,
      });
    };
    try {
      await sender.request({ do: 'connect', ...(await receiver.request<object>({ do: 'listen' })) });
      for (const mb of SIZES_MB) {
        const goal = mb >= 16 ? 0.7 : undefined;
        await row(`tensors of ${mb} MB`, 'GB/s', { do: 'bulk', mb, count: MB_PER_ROUND / mb }, goal);
      }
      await row('round trips of a scalar', '/s', { do: 'ping', seconds: SECONDS }, 0.67);
    } finally {
      await Promise.all([sender.close(), receiver.close()]);
    }
    await variableRows(report);
  },
};

const ENGINES = ['direct', 'grpc'] as const;

async function variableRows(report: (row: Row) => void): Promise<void> {
  const children: BenchProcess[] = [];
  const startWorker = async (engine: string): Promise<BenchProcess> => {
    const [ps, worker] = (await localAddresses(2)) as [string, string];
    const cluster = { ps: [ps], worker: [worker] };
    const start = (jobName: string) =>
      new BenchProcess('shoal', 'variable-task', {
        name: `${jobName} of ${engine}`,
        settings: { cluster, jobName, taskIndex: 0, engine },
      });
    children.push(start('ps'));
    const made = start('worker');
    children.push(made);
    return made;
  };
  try {
    const workers = { direct: await startWorker('direct'), grpc: await startWorker('grpc') };
    for (const what of ['pull', 'push']) {
      for (const mb of SIZES_MB) {
        const found = { direct: [] as number[], grpc: [] as number[] };
        for (let round = 0; round <= ROUNDS; round++) {
          for (const engine of round % 2 === 0 ? ENGINES : ENGINES.toReversed()) {
            const request = { do: what, mb, count: MB_PER_ROUND / mb };
            const { value } = await workers[engine].request<{ value: number }>(request);
            if (round > 0) found[engine].push(value);
          }
        }
        const row = compare(
          'wire',
          `${what} of a variable of ${mb} MB`,
          'GB/s',
          'higher',
          found.direct,
          found.grpc,
          1,
        );
        report({ ...row, baselineName: 'grpc engine' });
      }
    }
  } finally {
    for (const child of children.reverse()) await child.kill();
  }
}
