/**
 * Exports a model from two ps to a worker, and loads the exports, against Python. Python's builder needs a disk that
 * all tasks share, and has one here; each of Shoal's tasks has its own directory.
 *
 * Shoal publishes an export after it was flushed to the disk. Python's export is in the page cache. So there are two
 * rows: one with Python's export as it is, and one that includes flushing its files.
 *
 * Shoal writes past the page cache, so the first load of an export reads from the disk. Python's loader leaves the files
 * in the page cache. Each load is therefore measured twice: with the files in the page cache, and evicted from it. A
 * bare read of the files, in the same round, shows the limit of the disk.
 *
 * A process that serves a model loads it once, when it starts. So there are three rows for each: the first load of a new
 * process, with and without the start of the process, and later loads of a process, which find compiled code and started
 * thread pools.
 *
 * `--sizes=180,720` in MB, `--rounds=5`, `--dir=DIRECTORY` on the disk to measure. These are the defaults; DIRECTORY is
 * `.shoal`.
 */
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import {
  type Benchmark,
  BenchProcess,
  compare,
  localAddresses,
  median,
  ROOT,
  type Row,
  SIDES,
  type Side,
} from './harness.js';
import { bareReadMs, evict, filesBelow, flushDisk, readIntoCache } from './probes/disk.js';
import { peakGrowth } from './probes/memory.js';

const BENCH = 'export';
/** Tolerance for noise in the exporter's memory. */
const TOLERANCE_MB = 32;
/** Loads in a process that do not count: the first one starts thread pools. */
const WARMUP_LOADS = 1;

/** Where a load reads the files of a model from. */
const CACHES = ['page cache', 'disk'] as const;

interface Loads {
  /** The first load of a process, from the start of the process. */
  readonly fromStartMs: number[];
  readonly firstMs: number[];
  readonly laterMs: number[];
}

interface ExportTimes {
  readonly ms: number;
  /** Includes flushing all files to the disk. */
  readonly syncedMs: number;
  readonly cpuMs: number;
}

interface Measurements {
  readonly ms: number[];
  readonly syncedMs: number[];
  readonly cpuMs: number[];
  readonly growthMb: number[];
}

function settingsOf(flags: ReadonlyMap<string, string>) {
  return {
    sizes: (flags.get('sizes') ?? '180,720').split(',').map(Number),
    rounds: Number(flags.get('rounds') ?? 5),
    parent: resolve(flags.get('dir') ?? join(ROOT, '.shoal')),
  };
}

export const benchmark: Benchmark = {
  name: BENCH,
  about: 'exports of a model from two ps, and loads of the exports, against Python on one disk',
  disk: (flags) => {
    const { sizes, parent } = settingsOf(flags);
    return { directory: parent, bytes: 4 * Math.max(...sizes) * 1e6 };
  },
  async run(report, log, flags) {
    const { sizes, rounds, parent } = settingsOf(flags);
    await mkdir(parent, { recursive: true });
    const growths: number[] = [];
    for (const mb of sizes) {
      const directory = await mkdtemp(join(parent, 'bench-export-'));
      try {
        growths.push(await measure(mb, rounds, directory, report, log));
      } finally {
        await rm(directory, { recursive: true, force: true });
      }
    }
    if (growths.length < 2 || growths.some(Number.isNaN)) return;
    const [least, most] = [Math.min(...growths), Math.max(...growths)];
    const verdict =
      most - least <= TOLERANCE_MB ? 'it does not grow with the model' : 'IT GROWS WITH THE MODEL';
    const shown = sizes.map((mb, i) => `${growths[i]?.toFixed(0)} MB for ${mb} MB`).join(', ');
    log(`the exporter's memory grew by ${shown}: ${verdict}`);
  },
};

/** Returns by how many MB the memory of Shoal's exporter grew. */
async function measure(
  mb: number,
  rounds: number,
  directory: string,
  report: (row: Row) => void,
  log: (line: string) => void,
): Promise<number> {
  const clusters: Partial<Record<Side, BenchProcess[]>> = {};
  const found: Record<Side, Measurements> = { shoal: noMeasurements(), python: noMeasurements() };
  const loads = CACHES.map((cache) => ({ cache, of: { shoal: noLoads(), python: noLoads() } }));
  const bareMs: number[] = [];
  const loaders = {
    shoal: new BenchProcess('shoal', 'load-saved-model'),
    python: new BenchProcess('python', 'load-saved-model'),
  };
  try {
    for (const side of SIDES) clusters[side] = await startCluster(side, mb, directory);
    for (let round = 0; round <= rounds; round++) {
      // The sides swap their order in every round.
      const order = round % 2 === 0 ? SIDES : SIDES.toReversed();
      const targets = { shoal: '', python: '' };
      for (const side of order) {
        const worker = clusters[side]?.at(-1) as BenchProcess;
        const target = join(directory, side, String(round + 1));
        targets[side] = target;
        const [times, grown = Number.NaN] = await peakGrowth(worker.pid, () =>
          worker.request<ExportTimes>({ do: 'export', target }),
        );
        // Python leaves its bytes in the page cache: the next measurement must not pay for writing them.
        await flushDisk();
        if (round === 0) continue;
        found[side].ms.push(times.ms);
        found[side].syncedMs.push(times.syncedMs);
        found[side].cpuMs.push(times.cpuMs);
        found[side].growthMb.push(grown);
      }
      // Both load the same export.
      const firsts = new Set<number>();
      for (const { cache, of } of loads) {
        for (const side of order) {
          const files = await filesBelow(targets.shoal);
          const load = async (loader: BenchProcess) => {
            const { ms, first } = await loader.request<{ ms: number; first: number }>({ dir: targets.shoal });
            firsts.add(first);
            return ms;
          };
          const prepare = () => (cache === 'page cache' ? readIntoCache(files) : evict(files));
          await prepare();
          const ms = await load(loaders[side]);
          if (round < WARMUP_LOADS) continue;
          await prepare();
          const startedAt = performance.now();
          const fresh = new BenchProcess(side, 'load-saved-model');
          const { fromStartMs, firstMs, laterMs } = of[side];
          try {
            firstMs.push(await load(fresh));
            fromStartMs.push(performance.now() - startedAt);
          } finally {
            await fresh.kill();
          }
          laterMs.push(ms);
        }
      }
      const bare = await bareReadMs(await filesBelow(targets.shoal));
      if (bare !== undefined && round >= WARMUP_LOADS) bareMs.push(bare);
      if (firsts.size !== 1)
        throw new Error(`the loaders predict different values: ${[...firsts].join(' and ')}`);
      for (const side of SIDES) await rm(targets[side], { recursive: true });
    }
  } finally {
    for (const child of [...Object.values(clusters).flat(), ...Object.values(loaders)]) await child.kill();
  }
  const { shoal, python } = found;
  const row = (name: string, unit: string, a: number[], b: number[], goal?: number) =>
    report(compare(BENCH, `${mb} MB, ${name}`, unit, 'lower', a, b, goal));
  row('export', 'ms', shoal.ms, python.ms, 1);
  row("export, with Python's files flushed", 'ms', shoal.syncedMs, python.syncedMs, 1);
  row('CPU time of the exporter', 'ms', shoal.cpuMs, python.cpuMs);
  for (const { cache, of } of loads) {
    const { shoal, python } = of;
    const what = `load and first prediction from the ${cache}`;
    row(`${what}, with the start of the process`, 'ms', shoal.fromStartMs, python.fromStartMs, 2);
    row(`${what}, in a new process`, 'ms', shoal.firstMs, python.firstMs, 2);
    row(`${what}, in a running process`, 'ms', shoal.laterMs, python.laterMs, 2);
    if (cache === 'disk' && bareMs.length > 0) {
      const limit = median(python.laterMs) / median(bareMs);
      log(
        `a bare read of these files takes ${median(bareMs).toFixed(0)} ms: no load from this disk in a running process can be more than ${limit.toFixed(2)} times as fast as Python's`,
      );
    }
  }
  return median(shoal.growthMb);
}

const noLoads = (): Loads => ({ fromStartMs: [], firstMs: [], laterMs: [] });

const noMeasurements = (): Measurements => ({ ms: [], syncedMs: [], cpuMs: [], growthMb: [] });

/** Starts two ps and a worker, which is the last of the result. */
async function startCluster(side: Side, mb: number, directory: string): Promise<BenchProcess[]> {
  const hosts = await localAddresses(3);
  const cluster = { ps: hosts.slice(0, 2), worker: hosts.slice(2) };
  const start = (jobName: string, taskIndex: number) =>
    new BenchProcess(side, 'export-task', {
      name: `${side} ${jobName} ${taskIndex}`,
      settings: { mb, directory: join(directory, `${side}-tasks`), cluster, jobName, taskIndex },
    });
  await mkdir(join(directory, `${side}-tasks`), { recursive: true });
  return [start('ps', 0), start('ps', 1), start('worker', 0)];
}
