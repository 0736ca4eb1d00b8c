/**
 * FTRL on tables of 3 and of 30 million rows, 50,000 lookups per step: the cost of a step must depend on its batch, not
 * on the size of the table, and memory must hold each table and its two slots only once.
 */
import { BenchProcess, compare, median, type Row, SIDES } from '../harness.js';

const SIZES: readonly number[] = [3_000_000, 30_000_000];
const ROUNDS = 7;
const STEPS = 20;
const MAX_SLOWDOWN = 1.5;
const MEMORY_ALLOWANCE_MB = 1024;

const TABLES_MB = (SIZES.reduce((a, b) => a + b) * 2 * 4 * 3) / 2 ** 20;

interface Sample {
  /** The wall time and the CPU time of a step, in milliseconds. */
  readonly wall: number;
  readonly cpu: number;
}

export async function stepRows(report: (row: Row) => void, log: (line: string) => void): Promise<void> {
  const processes = {
    shoal: new BenchProcess('shoal', 'sparse-ftrl'),
    python: new BenchProcess('python', 'sparse-ftrl'),
  };
  const samples = { shoal: SIZES.map(() => [] as Sample[]), python: SIZES.map(() => [] as Sample[]) };
  try {
    for (let round = 0; round <= ROUNDS; round++) {
      for (const [i, rows] of SIZES.entries()) {
        for (const side of SIDES) {
          const sample = await processes[side].request<Sample>({ rows, steps: STEPS });
          // The first round initialises the tables.
          if (round > 0) samples[side][i]?.push(sample);
        }
      }
    }
    const walls = (list: readonly Sample[] = []) => list.map(({ wall }) => wall);
    for (const [i, rows] of SIZES.entries()) {
      const [ours, theirs] = [walls(samples.shoal[i]), walls(samples.python[i])];
      report(compare('sparse-ftrl', `step, ${rows / 1e6} million rows`, 'ms', 'lower', ours, theirs));
    }
    const memory = async (side: BenchProcess) =>
      (await side.request<{ value: number }>({ memory: true })).value;
    const [ours, theirs] = [await memory(processes.shoal), await memory(processes.python)];
    report(compare('sparse-ftrl', 'resident memory, both tables', 'MB', 'lower', [ours], [theirs]));
    const cpu = slowdown(samples.shoal, 'cpu');
    log(
      `ten times the rows: ${cpu.toFixed(2)} times the CPU time per step (at most ${MAX_SLOWDOWN}), ` +
        `${slowdown(samples.shoal, 'wall').toFixed(2)} of the wall time; ` +
        `Python ${slowdown(samples.python, 'cpu').toFixed(2)} and ${slowdown(samples.python, 'wall').toFixed(2)}`,
    );
    log(
      `tables and slots: ${Math.round(TABLES_MB)} MB; at most ${MEMORY_ALLOWANCE_MB} MB more may be resident`,
    );
    if (cpu > MAX_SLOWDOWN)
      throw new Error(
        `a step on ten times the rows took ${cpu.toFixed(2)} times the CPU time; at most ${MAX_SLOWDOWN} are allowed`,
      );
    if (ours > TABLES_MB + MEMORY_ALLOWANCE_MB)
      throw new Error(
        `${ours} MB are resident; at most ${Math.round(TABLES_MB + MEMORY_ALLOWANCE_MB)} MB are allowed`,
      );
  } finally {
    await Promise.all([processes.shoal.close(), processes.python.close()]);
  }
}

/** How much longer a step takes on the large table. The wall time includes other work of the machine. */
function slowdown([small = [], large = []]: readonly Sample[][], of: keyof Sample): number {
  return median(large.map((sample, i) => sample[of] / (small[i]?.[of] ?? Number.NaN)));
}
