/** Full disks while scenario 000 trains and saves: the error is logged, training continues, saving recovers. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { RESERVED } from '../../src/distributed/store/blob-names.js';
import { gather } from '../cluster/gather.js';
import type { Experiment } from '../experiment.js';
import type { Lab } from '../hosts/hosts.js';
import { allEnd, nextOutput, Scenario, type ScenarioTask, waitForOutput } from '../scenarios/scenario-run.js';

const DISK_BYTES = 16 * 1024 * 1024;
const SAVED = /saved .*model\.ckpt-(\d+)/g;
const TIMEOUT_MS = 60_000;

export const experiment: Experiment = {
  name: 'full-disk',
  description:
    "saves while a ps's, a peer's or the chief's disk is full: logged, not fatal, recovers afterwards",
  needs: { isolation: 'required' },
  async run(ctx) {
    const lab = await ctx.lab({ hosts: 5, diskBytes: DISK_BYTES });
    const scenario = new Scenario(lab, {
      program: 'examples/linear-regression/classic.ts',
      ps: 2,
      workers: 3,
    });
    const tasks = scenario.startAll(['--last_step=100000000', '--save_secs=2']);
    const chief = tasks[0] as ScenarioTask;
    await waitForOutput(ctx, chief, /saved .*model\.ckpt-\d+/);

    const next = (what: RegExp, from: number) => nextOutput(ctx, chief, what, from, TIMEOUT_MS);
    const saves = () => [...chief.process.output.matchAll(SAVED)].map(([, step]) => Number(step));
    const trainedOn = async () => {
      const from = chief.process.output.length;
      return (
        (await next(/step \d+ loss/, from)) !== undefined && tasks.every(({ process }) => process.running)
      );
    };

    for (const [name, host] of [
      ['ps 0', scenario.hostOf('ps', 0)],
      ["the chief's host", scenario.hostOf('worker', 0)],
    ] as const) {
      ctx.log(`the disk of ${name} is full`);
      const before = Math.max(...saves());
      await host.fillDisk();
      const from = chief.process.output.length;
      const failed = await next(/saving .* failed.*/, from);
      ctx.check(
        `the failure of a save with the disk of ${name} full is logged`,
        failed !== undefined,
        failed?.slice(0, 160),
      );
      ctx.check('the message says that the disk is full', /no room|no space/i.test(failed ?? ''));
      ctx.check('training continues', await trainedOn());
      const complete = await newestComplete(lab);
      ctx.check(
        'the newest checkpoint is complete',
        complete >= before,
        `step ${complete}, saved before ${before}`,
      );
      const known = saves().length;
      await host.freeDisk();
      const again = await next(SAVED_ONCE, chief.process.output.length);
      ctx.check('with free space it is saved again', again !== undefined && saves().length > known, again);
    }

    ctx.log('the disk of a worker, which holds copies of others, is full');
    const peer = scenario.hostOf('worker', 1);
    await peer.fillDisk();
    const from = chief.process.output.length;
    const saved = await next(SAVED_ONCE, from);
    ctx.check('other tasks store the copies, and it is saved', saved !== undefined, saved);
    await peer.freeDisk();

    for (const task of tasks) task.process.kill('SIGINT');
    await allEnd(ctx, tasks, 'all end after Ctrl-C');
    const left: string[] = [];
    for (const host of lab.hosts) {
      const { stdout } = await host.exec('find', [host.disk, '-path', `*/${RESERVED}/*`, '-type', 'f']);
      left.push(...stdout.split('\n').filter((line) => line !== ''));
    }
    ctx.check('no half-written file is left on any disk', left.length === 0, left.join(' '));
  },
};

/** The step of the newest checkpoint, all of whose bytes were read and verified. */
async function newestComplete(lab: Lab): Promise<number> {
  const directory = await mkdtemp(join(tmpdir(), 'shoal-full-disk-'));
  try {
    return (await gather(lab, directory, { job: 'train_logs' })).step;
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

const SAVED_ONCE = /saved .*model\.ckpt-\d+/;
