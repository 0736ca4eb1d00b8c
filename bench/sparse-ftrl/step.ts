/**
 * FTRL on a table of 3 and of 30 million rows, 50,000 lookups a step: a step must cost by its batch, not by
 * its table, and memory must hold the table and its two slots once.
 */
import { compare, median, Peer, type Row } from '../harness.js';

const SIZES: readonly number[] = [3_000_000, 30_000_000];
const ROUNDS = 7;
const STEPS = 20;
const GROWTH = 1.5;
const SPARE_MB = 1024;

const TABLES_MB = (SIZES.reduce((a, b) => a + b) * 2 * 4 * 3) / 2 ** 20;

interface Sample {
  /** Of a step, in milliseconds: on the clock, and of processor time. */
  readonly wall: number;
  readonly cpu: number;
}

export async function stepRows(report: (row: Row) => void, log: (line: string) => void): Promise<void> {
  const peers = { shoal: Peer.shoal('sparse-ftrl.mjs'), python: Peer.python('sparse-ftrl.py') };
  const samples = { shoal: SIZES.map(() => [] as Sample[]), python: SIZES.map(() => [] as Sample[]) };
  try {
    for (let round = 0; round <= ROUNDS; round++) {
      for (const [i, rows] of SIZES.entries()) {
        for (const who of ['shoal', 'python'] as const) {
          const sample = await peers[who].ask<Sample>({ rows, steps: STEPS });
          // The first round initialises the tables.
          if (round > 0) samples[who][i]?.push(sample);
        }
      }
    }
    const walls = (list: readonly Sample[] = []) => list.map(({ wall }) => wall);
    for (const [i, rows] of SIZES.entries()) {
      const [ours, theirs] = [walls(samples.shoal[i]), walls(samples.python[i])];
      report(compare('sparse-ftrl', `step, ${rows / 1e6} million rows`, 'ms', 'lower', ours, theirs));
    }
    const memory = async (peer: Peer) => (await peer.ask<{ value: number }>({ memory: true })).value;
    const [ours, theirs] = [await memory(peers.shoal), await memory(peers.python)];
    report(compare('sparse-ftrl', 'resident memory, both tables', 'MB', 'lower', [ours], [theirs]));
    const cpu = growth(samples.shoal, 'cpu');
    log(
      `ten times the rows: ${cpu.toFixed(2)} times the processor time a step (at most ${GROWTH}), ` +
        `${growth(samples.shoal, 'wall').toFixed(2)} on the clock; ` +
        `Python ${growth(samples.python, 'cpu').toFixed(2)} and ${growth(samples.python, 'wall').toFixed(2)}`,
    );
    log(`tables and slots: ${Math.round(TABLES_MB)} MB; at most ${SPARE_MB} MB more may be resident`);
    if (cpu > GROWTH) throw new Error(`a step on ten times the rows took ${cpu.toFixed(2)} times as long`);
    if (ours > TABLES_MB + SPARE_MB) throw new Error(`${ours} MB are resident`);
  } finally {
    await Promise.all([peers.shoal.close(), peers.python.close()]);
  }
}

/** How much longer a step takes on the large table. The clock also counts what else the machine does. */
function growth([small = [], large = []]: readonly Sample[][], of: keyof Sample): number {
  return median(large.map((sample, i) => sample[of] / (small[i]?.[of] ?? Number.NaN)));
}
