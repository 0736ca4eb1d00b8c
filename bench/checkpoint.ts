/**
 * Saves and restores during training, with one ps and one worker, against Python's Saver and against the speed of the
 * machine at that moment: writes, reads and copies of the same size, alternating with the saves. The first save of each
 * side does not count: it builds graphs and opens files. Neither side deletes what it saved: on a disk with online
 * discard a delete takes longer than the write, and is no part of a save.
 *
 * `--sizes=64,512,2048` in MB, `--models=dense,sparse,all`, `--minutes=2` of training with one save a minute (0: none),
 * `--dir=DIRECTORY` on the disk to measure. These are the defaults; DIRECTORY is `.shoal`.
 */
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { overhead, type SaveImpact, saveImpact } from './checkpoint/save-impact.js';
import { type Model, TaskPair } from './checkpoint/task-pair.js';
import { type Benchmark, type Better, compare, median, ROOT, type Row } from './harness.js';
import { bareWrite, copyMs, filesBelow, flushDisk, readSpeed, tryEvict, writeSpeed } from './probes/disk.js';
import { peakGrowth } from './probes/memory.js';

const BENCH = 'checkpoint';
const QUIET_SECONDS = 3;
const TAIL_SECONDS = 1;
const EVERY_SECONDS = 60;
const MAX_OVERHEAD = 3.5;
/** By how much the memory of a ps may grow, besides the copy of its sparsely updated tables. */
const PS_ALLOWANCE_MB = 256;
/** Tolerance for noise in the chief's memory. */
const CHIEF_TOLERANCE_MB = 16;

interface Round {
  readonly shoal: SaveImpact;
  readonly pythonMs: number;
  readonly copyMs: number;
  /** For how long a bare write of the same size blocked the steps. */
  readonly bareMs: number | undefined;
  readonly psGrowth: number | undefined;
}

interface Chief {
  readonly mb: number;
  readonly growth: readonly (number | undefined)[];
  readonly cpuMs: readonly number[];
}

const roundsFor = (mb: number): number => (mb <= 128 ? 7 : mb <= 1024 ? 5 : 3);

function settingsOf(flags: ReadonlyMap<string, string>) {
  return {
    sizes: (flags.get('sizes') ?? '64,512,2048').split(',').map(Number),
    models: (flags.get('models') ?? 'dense,sparse,all').split(',') as Model[],
    minutes: Number(flags.get('minutes') ?? 2),
    parent: resolve(flags.get('dir') ?? join(ROOT, '.shoal')),
  };
}

export const benchmark: Benchmark = {
  name: BENCH,
  about: "saves during training, against Python's Saver, the disk and the memory of this machine",
  disk: (flags) => {
    const { sizes, minutes, parent } = settingsOf(flags);
    // For one model of one size: Shoal's two series of saves and one save a minute, each twice, and Python's series.
    const saves = (mb: number) => 2 * (2 * (roundsFor(mb) + 1) + minutes) + roundsFor(mb) + 1;
    return { directory: parent, bytes: Math.max(...sizes.map((mb) => mb * 1e6 * saves(mb))) };
  },
  async run(report, log, flags) {
    const { sizes, models, minutes, parent } = settingsOf(flags);
    await mkdir(parent, { recursive: true });
    const directory = await mkdtemp(join(parent, 'bench-'));
    try {
      for (const model of models) {
        const blocked = new Map<number, number[]>();
        const chiefs: Chief[] = [];
        for (const mb of sizes) {
          const measured = new CheckpointCase(model, mb, directory, report, log);
          await measured.run(mb === sizes[sizes.length >> 1] ? minutes : 0);
          blocked.set(mb, measured.blocked);
          chiefs.push(measured.chief);
        }
        if (sizes.length > 1 && model !== 'all') compareSizes(model, blocked, chiefs, report);
      }
    } finally {
      await rm(directory, { recursive: true, force: true });
    }
  },
};

/** The measurements of one model of one size. */
class CheckpointCase {
  readonly model: Model;
  readonly mb: number;
  readonly directory: string;
  readonly report: (row: Row) => void;
  readonly log: (line: string) => void;
  readonly blocked: number[] = [];
  chief: Chief;

  constructor(
    model: Model,
    mb: number,
    directory: string,
    report: (row: Row) => void,
    log: (line: string) => void,
  ) {
    this.model = model;
    this.mb = mb;
    this.directory = directory;
    this.report = report;
    this.log = log;
    this.chief = { mb, growth: [], cpuMs: [] };
  }

  async run(minutes: number): Promise<void> {
    const { model, mb, directory } = this;
    const pairs: TaskPair[] = [];
    try {
      const shoal = await TaskPair.start('shoal', model, mb, directory);
      pairs.push(shoal);
      await shoal.train(1);
      const python = await TaskPair.start('python', model, mb, directory);
      pairs.push(python);
      await python.train(1);
      await this.#saves(shoal, python);
      await python.kill();
      if (minutes > 0) await this.#minutes(shoal, minutes);
      if (model === 'all') return;
      await this.#idleSaves(shoal);
    } finally {
      for (const pair of pairs) {
        await pair.kill();
        await rm(pair.directory, { recursive: true, force: true });
      }
    }
  }

  async #saves(shoal: TaskPair, python: TaskPair): Promise<void> {
    const { model, mb } = this;
    const rounds: Round[] = [];
    for (let round = 0; round <= roundsFor(mb); round++) {
      const [steps, psGrowth] = await peakGrowth(shoal.ps.pid, () =>
        shoal.train(QUIET_SECONDS, [QUIET_SECONDS], TAIL_SECONDS),
      );
      const [[start, end] = [0, 0]] = (await python.train(QUIET_SECONDS, [QUIET_SECONDS])).saves;
      // Python leaves its bytes in the page cache: the next measurement must not pay for writing them.
      await flushDisk();
      const impact = saveImpact(steps);
      const result = {
        shoal: impact,
        pythonMs: end - start,
        copyMs: await copyMs(mb),
        bareMs: await this.#bare(shoal),
        psGrowth,
      };
      this.log(
        `${model} ${mb} MB${round === 0 ? ', first save' : ''}: saved in ${ms(impact.saveMs)}, blocked ${ms(impact.blockedMs)} ` +
          `(pause ${ms(impact.pauseMs)}, noise ${ms(impact.noiseMs)}), lost ${ms(impact.lostMs)}; python ${ms(result.pythonMs)}; ` +
          `copy ${ms(result.copyMs)}, bare write ${result.bareMs === undefined ? '?' : ms(result.bareMs)}, ps +${psGrowth?.toFixed(0) ?? '?'} MB`,
      );
      if (round > 0) rounds.push(result);
    }
    this.blocked.push(...rounds.map(({ shoal }) => blockedBy(shoal)));
    this.#rows(rounds);
  }

  /** For how long a bare write, which every save includes, blocks the steps. */
  async #bare(shoal: TaskPair): Promise<number | undefined> {
    const { mb } = this;
    const path = join(this.directory, 'bare');
    const seconds = QUIET_SECONDS + TAIL_SECONDS + mb / 500;
    const [steps, isDone] = await shoal.trainDuring(seconds, QUIET_SECONDS, () => bareWrite(path, mb));
    await rm(path, { force: true });
    return isDone ? blockedBy(saveImpact(steps)) : undefined;
  }

  #rows(rounds: readonly Round[]): void {
    const { model, mb } = this;
    const hasGoal = model !== 'all';
    const of = (pick: (round: Round) => number) => rounds.map(pick);
    const blocked = of(({ shoal }) => Math.max(blockedBy(shoal), 0.1));
    const python = of(({ pythonMs }) => pythonMs);
    const copies = of((round) => round.copyMs);
    if (model === 'dense') this.#row('blocked by a save', 'ms', 'lower', blocked, python, 50);
    else
      this.#row('blocked by a save', 'ms', 'lower', blocked, copies, hasGoal ? 1 : undefined, 'memory copy');
    const bare = of(({ bareMs }) => Math.max(bareMs ?? Number.NaN, 0.1));
    if (bare.every(Number.isFinite)) this.#row('blocked by a bare write', 'ms', 'lower', bare, python);
    const pauses = of(({ shoal }) => shoal.pauseMs);
    this.#row('pause for the snapshot', 'ms', 'lower', pauses, python);
    const saves = of(({ shoal }) => shoal.saveMs);
    this.#row('complete save during training', 'ms', 'lower', saves, python);
    const growths = of(({ psGrowth }) => psGrowth ?? Number.NaN);
    if (growths.every(Number.isFinite)) {
      const allowed = (model === 'dense' ? 0 : mb) + PS_ALLOWANCE_MB;
      const goal = hasGoal ? 1 : undefined;
      const most = growths.map((value) => Math.max(value, 0.1));
      this.#row(
        'memory growth of the ps in a save',
        'MB',
        'lower',
        most,
        growths.map(() => allowed),
        goal,
        'allowed',
      );
    }
    const lost = of(({ shoal }) => shoal.lostMs / (EVERY_SECONDS * 10));
    this.#overhead(`overhead of a save every ${EVERY_SECONDS} s (computed)`, lost);
  }

  async #minutes(shoal: TaskPair, minutes: number): Promise<void> {
    const saveAt = Array.from({ length: minutes }, (_, i) => i * EVERY_SECONDS + 1);
    const steps = await shoal.train(minutes * EVERY_SECONDS, saveAt);
    this.#overhead(`overhead of ${minutes} saves, one every ${EVERY_SECONDS} s`, [100 * overhead(steps)]);
  }

  #overhead(name: string, percent: readonly number[]): void {
    const shown = percent.map((value) => Math.max(value, 0.01));
    const allowed = percent.map(() => MAX_OVERHEAD);
    this.#row(name, '%', 'lower', shown, allowed, this.model === 'all' ? undefined : 1, 'allowed');
  }

  /** Saves and restores without training: the chief's CPU time and memory, and the speed of both. */
  async #idleSaves(shoal: TaskPair): Promise<void> {
    const { mb, directory } = this;
    const idle = (await shoal.idle(3)).cpuMs / 3000;
    const chief = { mb, growth: [] as (number | undefined)[], cpuMs: [] as number[] };
    const speeds = {
      saved: [] as number[],
      written: [] as number[],
      restored: [] as number[],
      read: [] as number[],
    };
    let isCold = true;
    for (let round = 0; round <= roundsFor(mb); round++) {
      const written = await between(
        () => writeSpeed(directory, mb),
        () => peakGrowth(shoal.worker.pid, () => shoal.save()),
      );
      const [saved, grown] = written.result;
      isCold = (await tryEvict(await filesBelow(shoal.directory))) && isCold;
      const read = await between(
        () => readSpeed(directory, mb),
        () => shoal.restore(saved.path),
      );
      this.log(
        `${this.model} ${mb} MB, no training${round === 0 ? ', first save' : ''}: saved in ${ms(saved.ms)} (disk ${ms((mb / written.speed) * 1000)}), ` +
          `chief ${ms(saved.cpuMs)} of CPU time; restored in ${ms(read.result.ms)} (disk ${ms((mb / read.speed) * 1000)})`,
      );
      if (round === 0) continue;
      chief.growth.push(grown);
      chief.cpuMs.push(Math.max(0, saved.cpuMs - idle * saved.ms));
      speeds.saved.push((mb / saved.ms) * 1000);
      speeds.written.push(written.speed);
      speeds.restored.push((mb / read.result.ms) * 1000);
      speeds.read.push(read.speed);
    }
    this.chief = chief;
    this.#row('complete save', 'MB/s', 'higher', speeds.saved, speeds.written, 0.8, 'disk');
    const name = isCold ? 'restore' : 'restore (from the page cache)';
    this.#row(name, 'MB/s', 'higher', speeds.restored, speeds.read, 0.8, 'disk');
  }

  #row(
    name: string,
    unit: string,
    better: Better,
    shoal: readonly number[],
    baseline: readonly number[],
    goal?: number,
    baselineName?: string,
  ): void {
    const row = `${this.model} ${this.mb} MB, ${name}`;
    this.report({ ...compare(BENCH, row, unit, better, shoal, baseline, goal), baselineName });
  }
}

/** Compares the largest size with the smallest in what must not grow with the size. */
function compareSizes(
  model: Model,
  blocked: ReadonlyMap<number, readonly number[]>,
  chiefs: readonly Chief[],
  report: (row: Row) => void,
): void {
  const [small, large] = [chiefs[0] as Chief, chiefs.at(-1) as Chief];
  const baselineName = `${small.mb} MB`;
  const row = (name: string, unit: string, ofLarge: readonly number[], ofSmall: number, goal: number) => {
    const baseline = ofLarge.map(() => ofSmall);
    const title = `${model} ${large.mb} MB, ${name}`;
    report({ ...compare(BENCH, title, unit, 'lower', ofLarge, baseline, goal), baselineName });
  };
  if (model === 'dense') {
    const of = (mb: number) => (blocked.get(mb) ?? []).map((value) => Math.max(value, 0.1));
    row('blocked by a save', 'ms', of(large.mb), median(of(small.mb)), 0.5);
  }
  row('CPU time of the chief', 'ms', large.cpuMs, median(small.cpuMs), 0.5);
  const grown = (chief: Chief) => chief.growth.flatMap((value) => (value === undefined ? [] : [value]));
  if (grown(small).length === 0) return;
  const withTolerance = (value: number) => value + CHIEF_TOLERANCE_MB;
  const title = `memory growth of the chief, + ${CHIEF_TOLERANCE_MB} MB`;
  row(title, 'MB', grown(large).map(withTolerance), withTolerance(median(grown(small))), 0.8);
}

/** Runs `work` between two probes of the disk; returns its result and the mean speed of the disk. */
async function between<T>(
  probe: () => Promise<number>,
  work: () => Promise<T>,
): Promise<{ readonly result: T; readonly speed: number }> {
  const before = await probe();
  const result = await work();
  const after = await probe();
  return { result, speed: 2 / (1 / before + 1 / after) };
}

/** The blocked time without the noise of the machine. */
const blockedBy = ({ blockedMs, noiseMs }: SaveImpact): number => blockedMs - noiseMs;
const ms = (value: number): string => `${value.toFixed(0)} ms`;
