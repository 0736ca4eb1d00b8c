/**
 * Messages between two processes on loopback, through the connections of the direct engine and through a bare socket of
 * Node that carries the same bytes. The bare receiver copies them to memory that it uses again each time; the receiver of
 * tensors allocates new memory for each.
 */
import { type Benchmark, BenchProcess, compare } from './harness.js';

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
  },
};
