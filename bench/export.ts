/**
 * Exports from two ps to a worker, and loading what was exported, against Python. Python's builder needs one disk for all
 * tasks and has it here; Shoal's tasks have directories of their own.
 *
 * Shoal's export is on the disk, and was read back from there, when it is published. Python's is in the page cache. So there
 * are two rows: one with Python's export as it is, and one with the same exports when their files have been flushed.
 *
 * Shoal writes past the page cache, so whoever loads an export first reads it from the disk, and leaves it in the page cache
 * for the next. Before each load the cache is therefore filled, or emptied; there is a row for each.
 *
 * `--sizes=180,720` in MB, `--rounds=5`, `--dir=DIRECTORY` on the disk that is to be measured.
 */
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { choosePorts } from '../src/job/launcher/ports.js';
import { growth } from './checkpoint/memory.js';
import { type Benchmark, compare, median, oraclePython, Peer, ROOT, type Row } from './harness.js';

const BENCH = 'export';
/** A difference of the exporter's memory between sizes that is nobody's bytes. */
const SPARE_MB = 32;
/** Loads in a process before those that count: the first one starts thread pools. */
const WARM_LOADS = 1;

const SIDES = ['shoal', 'python'] as const;
type Side = (typeof SIDES)[number];

/** Where the files of a model are when it is loaded. */
const CACHES = ['page cache', 'disk'] as const;

interface Answer {
  readonly ms: number;
  /** Until all files are on the disk. */
  readonly syncedMs: number;
  readonly cpuMs: number;
}

interface Exported {
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
  about: 'exports of a model on two ps, and loading them, against Python on one disk',
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
        growths.push(await measure(mb, rounds, directory, report));
      } finally {
        await rm(directory, { recursive: true, force: true });
      }
    }
    if (growths.length < 2 || growths.some(Number.isNaN)) return;
    const [least, most] = [Math.min(...growths), Math.max(...growths)];
    const verdict = most - least <= SPARE_MB ? 'it does not grow with the model' : 'IT GROWS WITH THE MODEL';
    const shown = sizes.map((mb, i) => `${growths[i]?.toFixed(0)} MB for ${mb} MB`).join(', ');
    log(`the exporter's memory grew by ${shown}: ${verdict}`);
  },
};

/** Gives by how much the exporter of Shoal grew. */
async function measure(
  mb: number,
  rounds: number,
  directory: string,
  report: (row: Row) => void,
): Promise<number> {
  const clusters: Partial<Record<Side, Peer[]>> = {};
  const found: Record<Side, Exported> = { shoal: nothing(), python: nothing() };
  const loads = CACHES.map(() => ({ shoal: [] as number[], python: [] as number[] }));
  const loaders = { shoal: Peer.shoal('load.mjs'), python: Peer.python('load.py') };
  try {
    for (const side of SIDES) clusters[side] = await startCluster(side, mb, directory);
    for (let round = 0; round <= rounds; round++) {
      // The one that is first in a round is second in the next.
      const inTurn = round % 2 === 0 ? SIDES : SIDES.toReversed();
      const targets = { shoal: '', python: '' };
      for (const side of inTurn) {
        const worker = clusters[side]?.at(-1) as Peer;
        const target = join(directory, side, String(round + 1));
        targets[side] = target;
        const [answer, grown = Number.NaN] = await growth(worker.pid, () =>
          worker.ask<Answer>({ do: 'export', target }),
        );
        // What Python leaves to the page cache is not to be written during another's turn.
        await run('sync');
        if (round === 0) continue;
        found[side].ms.push(answer.ms);
        found[side].syncedMs.push(answer.syncedMs);
        found[side].cpuMs.push(answer.cpuMs);
        found[side].growthMb.push(grown);
      }
      // Both load the same export.
      const firsts = new Set<number>();
      for (const [i, cache] of CACHES.entries()) {
        for (const side of inTurn) {
          await prepareCache(targets.shoal, cache);
          const { ms, first } = await loaders[side].ask<{ ms: number; first: number }>({
            dir: targets.shoal,
          });
          firsts.add(first);
          if (round >= WARM_LOADS) loads[i]?.[side].push(ms);
        }
      }
      if (firsts.size !== 1) throw new Error(`the loaders disagree: ${[...firsts].join(' and ')}`);
      for (const side of SIDES) await rm(targets[side], { recursive: true });
    }
  } finally {
    for (const peer of [...Object.values(clusters).flat(), ...Object.values(loaders)]) await peer.kill();
  }
  const { shoal, python } = found;
  const row = (name: string, unit: string, a: number[], b: number[], goal?: number) =>
    report(compare(BENCH, `${mb} MB, ${name}`, unit, 'lower', a, b, goal));
  row('export', 'ms', shoal.ms, python.ms, 1);
  row("export, Python's files flushed too", 'ms', shoal.syncedMs, python.syncedMs, 1);
  row("exporter's processor time", 'ms', shoal.cpuMs, python.cpuMs);
  for (const [i, cache] of CACHES.entries()) {
    const { shoal, python } = loads[i] as Record<Side, number[]>;
    row(`load and first prediction from the ${cache}`, 'ms', shoal, python, 2);
  }
  return median(shoal.growthMb);
}

const run = promisify(execFile);

/** Brings all files of a model into the page cache, or out of it. */
async function prepareCache(model: string, cache: (typeof CACHES)[number]): Promise<void> {
  for (const entry of await readdir(model, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const file = join(entry.parentPath, entry.name);
    const how = cache === 'page cache' ? ['of=/dev/null', 'bs=1M'] : ['iflag=nocache', 'count=0'];
    await run('dd', [`if=${file}`, ...how]);
  }
}

const nothing = (): Exported => ({ ms: [], syncedMs: [], cpuMs: [], growthMb: [] });

/** Two ps and, last, the worker. */
async function startCluster(side: Side, mb: number, directory: string): Promise<Peer[]> {
  const hosts = (await choosePorts('127.0.0.1', 3)).map((port) => `127.0.0.1:${port}`);
  const cluster = { ps: hosts.slice(0, 2), worker: hosts.slice(2) };
  const start = (jobName: string, taskIndex: number): Peer => {
    const [command, script] =
      side === 'shoal' ? [process.execPath, 'export-task.mjs'] : [oraclePython(), 'export-task.py'];
    return Peer.start(`${side} ${jobName} ${taskIndex}`, command, [join(ROOT, 'bench/peers', script)], {
      ...process.env,
      UV_THREADPOOL_SIZE: process.env.UV_THREADPOOL_SIZE ?? '16',
      TF_CPP_MIN_LOG_LEVEL: '3',
      PYTHONUNBUFFERED: '1',
      BENCH: JSON.stringify({ mb, directory: join(directory, `${side}-tasks`), cluster, jobName, taskIndex }),
    });
  };
  await mkdir(join(directory, `${side}-tasks`), { recursive: true });
  return [start('ps', 0), start('ps', 1), start('worker', 0)];
}
