/**
 * Saving and restoring beside training, one ps and one worker, against Python's Saver and against what the machine itself
 * can do at that moment: writes, reads and copies of as many bytes, in turns with the saves. The first save of each
 * stands apart: it makes graphs and opens files. Neither side deletes what it saved: on a disk that is told of every
 * freed block this takes longer than writing did, and is no part of a save.
 *
 * `--sizes=64,512,2048` in MB, `--models=dense,sparse,all`, `--minutes=2` of training with a save in each (0: none),
 * `--dir=DIRECTORY` on the disk that is to be measured.
 */
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { growth } from './checkpoint/memory.js';
import { bareWrite, copyMs, filesBelow, forget, readSpeed, writeSpeed } from './checkpoint/probes.js';
import { type Model, Pair } from './checkpoint/tasks.js';
import { overhead, type SaveWindow, saveWindow } from './checkpoint/windows.js';
import { type Benchmark, type Better, compare, median, ROOT, type Row } from './harness.js';

const BENCH = 'checkpoint';
const QUIET_SECONDS = 3;
const TAIL_SECONDS = 1;
const EVERY_SECONDS = 60;
const MAX_OVERHEAD = 3.5;
/** What a ps may need beside the copy of its sparse-updated tables. */
const SPARE_MB = 256;
/** A difference of the chief's memory that is nobody's bytes. */
const CHIEF_SPARE_MB = 16;

interface Round {
  readonly shoal: SaveWindow;
  readonly pythonMs: number;
  readonly copyMs: number;
  /** What a bare write of as many bytes did to the same steps. */
  readonly bareMs: number | undefined;
  readonly psGrowth: number | undefined;
}

interface Chief {
  readonly mb: number;
  readonly growth: readonly (number | undefined)[];
  readonly cpuMs: readonly number[];
}

const syncDisk = async (): Promise<void> => {
  await promisify(execFile)('sync');
};
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
  about: "saves beside training, against Python's Saver, the disk and the memory of this machine",
  disk: (flags) => {
    const { sizes, minutes, parent } = settingsOf(flags);
    // Of one model in one size: two series of saves and one a minute by Shoal, in two copies, and Python's series.
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
          const measured = new Measured(model, mb, directory, report, log);
          await measured.run(mb === sizes[sizes.length >> 1] ? minutes : 0);
          blocked.set(mb, measured.blocked);
          chiefs.push(measured.chief);
        }
        if (sizes.length > 1 && model !== 'all') acrossSizes(model, blocked, chiefs, report);
      }
    } finally {
      await rm(directory, { recursive: true, force: true });
    }
  },
};

/** One model in one size. */
class Measured {
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
    const pairs: Pair[] = [];
    try {
      const shoal = await Pair.start('shoal', model, mb, directory);
      pairs.push(shoal);
      await shoal.train(1);
      const python = await Pair.start('python', model, mb, directory);
      pairs.push(python);
      await python.train(1);
      await this.#saves(shoal, python);
      await python.end();
      if (minutes > 0) await this.#minutes(shoal, minutes);
      if (model === 'all') return;
      await this.#quietSaves(shoal);
    } finally {
      for (const pair of pairs) {
        await pair.end();
        await rm(pair.directory, { recursive: true, force: true });
      }
    }
  }

  async #saves(shoal: Pair, python: Pair): Promise<void> {
    const { model, mb } = this;
    const rounds: Round[] = [];
    for (let round = 0; round <= roundsFor(mb); round++) {
      const [trained, psGrowth] = await growth(shoal.ps.pid, () =>
        shoal.train(QUIET_SECONDS, [QUIET_SECONDS], TAIL_SECONDS),
      );
      const [[start, end] = [0, 0]] = (await python.train(QUIET_SECONDS, [QUIET_SECONDS])).saves;
      // Python leaves its bytes to the page cache: they are not to be written during another's turn.
      await syncDisk();
      const window = saveWindow(trained);
      const result = {
        shoal: window,
        pythonMs: end - start,
        copyMs: await copyMs(mb),
        bareMs: await this.#bare(shoal),
        psGrowth,
      };
      this.log(
        `${model} ${mb} MB${round === 0 ? ', first save' : ''}: saved in ${ms(window.saveMs)}, blocked ${ms(window.blockedMs)} ` +
          `(rest ${ms(window.restMs)}, unrest ${ms(window.unrestMs)}), lost ${ms(window.lostMs)}; python ${ms(result.pythonMs)}; ` +
          `copy ${ms(result.copyMs)}, bare write ${result.bareMs === undefined ? '?' : ms(result.bareMs)}, ps +${psGrowth?.toFixed(0) ?? '?'} MB`,
      );
      if (round > 0) rounds.push(result);
    }
    this.blocked.push(...rounds.map(({ shoal }) => blockedBy(shoal)));
    this.#rows(rounds);
  }

  /** How long steps are blocked by a bare write, which a save can't do without. */
  async #bare(shoal: Pair): Promise<number | undefined> {
    const { mb } = this;
    const path = join(this.directory, 'bare');
    const seconds = QUIET_SECONDS + TAIL_SECONDS + mb / 500;
    const [trained, isDone] = await shoal.trainBeside(seconds, QUIET_SECONDS, () => bareWrite(path, mb));
    await rm(path, { force: true });
    return isDone ? blockedBy(saveWindow(trained)) : undefined;
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
    const rests = of(({ shoal }) => shoal.restMs);
    this.#row('rest for the snapshot', 'ms', 'lower', rests, python);
    const saves = of(({ shoal }) => shoal.saveMs);
    this.#row('whole save beside training', 'ms', 'lower', saves, python);
    const growths = of(({ psGrowth }) => psGrowth ?? Number.NaN);
    if (growths.every(Number.isFinite)) {
      const allowed = (model === 'dense' ? 0 : mb) + SPARE_MB;
      const goal = hasGoal ? 1 : undefined;
      const most = growths.map((value) => Math.max(value, 0.1));
      this.#row(
        'ps memory of a save',
        'MB',
        'lower',
        most,
        growths.map(() => allowed),
        goal,
        'allowed',
      );
    }
    const lost = of(({ shoal }) => shoal.lostMs / (EVERY_SECONDS * 10));
    this.#overhead(`overhead, ${EVERY_SECONDS} s apart (computed)`, lost);
  }

  async #minutes(shoal: Pair, minutes: number): Promise<void> {
    const saveAt = Array.from({ length: minutes }, (_, i) => i * EVERY_SECONDS + 1);
    const trained = await shoal.train(minutes * EVERY_SECONDS, saveAt);
    this.#overhead(`overhead, ${minutes} saves ${EVERY_SECONDS} s apart`, [100 * overhead(trained)]);
  }

  #overhead(name: string, percent: readonly number[]): void {
    const shown = percent.map((value) => Math.max(value, 0.01));
    const allowed = percent.map(() => MAX_OVERHEAD);
    this.#row(name, '%', 'lower', shown, allowed, this.model === 'all' ? undefined : 1, 'allowed');
  }

  /** Saves and restores while nobody trains: the chief's own part, and the speed of reading. */
  async #quietSaves(shoal: Pair): Promise<void> {
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
        () => growth(shoal.worker.pid, () => shoal.save()),
      );
      const [saved, grown] = written.result;
      isCold = (await forget(await filesBelow(shoal.directory))) && isCold;
      const read = await between(
        () => readSpeed(directory, mb),
        () => shoal.restore(saved.path),
      );
      this.log(
        `${this.model} ${mb} MB, nobody trains${round === 0 ? ', first' : ''}: saved in ${ms(saved.ms)} (disk ${ms((mb / written.speed) * 1000)}), ` +
          `chief ${ms(saved.cpuMs)} of cpu; restored in ${ms(read.result.ms)} (disk ${ms((mb / read.speed) * 1000)})`,
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
    this.#row('whole save', 'MB/s', 'higher', speeds.saved, speeds.written, 0.8, 'disk');
    const name = isCold ? 'restore' : 'restore (from a warm cache)';
    this.#row(name, 'MB/s', 'higher', speeds.restored, speeds.read, 0.8, 'disk');
  }

  #row(
    name: string,
    unit: string,
    better: Better,
    shoal: readonly number[],
    peer: readonly number[],
    goal?: number,
    against?: string,
  ): void {
    const row = `${this.model} ${this.mb} MB, ${name}`;
    this.report({ ...compare(BENCH, row, unit, better, shoal, peer, goal), against });
  }
}

/** What must not grow with the size. */
function acrossSizes(
  model: Model,
  blocked: ReadonlyMap<number, readonly number[]>,
  chiefs: readonly Chief[],
  report: (row: Row) => void,
): void {
  const [small, large] = [chiefs[0] as Chief, chiefs.at(-1) as Chief];
  const against = `${small.mb} MB`;
  const row = (name: string, unit: string, ofLarge: readonly number[], ofSmall: number, goal: number) => {
    const peer = ofLarge.map(() => ofSmall);
    const title = `${model} ${large.mb} MB, ${name}`;
    report({ ...compare(BENCH, title, unit, 'lower', ofLarge, peer, goal), against });
  };
  if (model === 'dense') {
    const of = (mb: number) => (blocked.get(mb) ?? []).map((value) => Math.max(value, 0.1));
    row('blocked by a save', 'ms', of(large.mb), median(of(small.mb)), 0.5);
  }
  row('cpu of the chief', 'ms', large.cpuMs, median(small.cpuMs), 0.5);
  const grown = (chief: Chief) => chief.growth.flatMap((value) => (value === undefined ? [] : [value]));
  if (grown(small).length === 0) return;
  const withSpare = (value: number) => value + CHIEF_SPARE_MB;
  const title = `memory of the chief, + ${CHIEF_SPARE_MB}`;
  row(title, 'MB', grown(large).map(withSpare), withSpare(median(grown(small))), 0.8);
}

/** Work between two probes of the disk, and the speed that it had meanwhile. */
async function between<T>(
  probe: () => Promise<number>,
  work: () => Promise<T>,
): Promise<{ readonly result: T; readonly speed: number }> {
  const before = await probe();
  const result = await work();
  const after = await probe();
  return { result, speed: 2 / (1 / before + 1 / after) };
}

/** What of the blocked time is the save's: the machine's own unrest is there without one. */
const blockedBy = ({ blockedMs, unrestMs }: SaveWindow): number => blockedMs - unrestMs;
const ms = (value: number): string => `${value.toFixed(0)} ms`;
