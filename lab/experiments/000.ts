/** Scenario 000: two ps, three workers, disks apart, the classic program; saved, run again, gone on with. */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseCheckpointState } from '../../src/formats/checkpoint-state/checkpoint-state.js';
import { askPython } from '../../test/python.js';
import type { Context, Experiment } from '../experiment.js';
import { gather } from '../gather.js';
import type { LabHost } from '../hosts.js';
import { allEnd, Scenario, type ScenarioTask, says } from '../scenario.js';

const PYTHON = new URL('../../src/train/testing/saver.py', import.meta.url);

export const experiment: Experiment = {
  name: '000',
  description: 'scenario 000: 2 ps + 3 workers train, save, stop, go on; Python reads the checkpoint',
  flags: {
    steps: { type: 'string', default: '50000', description: 'the last step of the first run' },
  },
  async run(ctx) {
    const lastStep = Number(ctx.flags.steps);
    const lab = await ctx.lab({ hosts: 5 });
    const scenario = new Scenario(lab, {
      program: 'examples/linear-regression/classic.ts',
      ps: 2,
      workers: 3,
    });
    const chiefHost = scenario.hostOf('worker', 0);
    const flags = (last: number) => [`--last_step=${last}`, '--save_secs=10'];

    ctx.log(`the first run, to step ${lastStep}`);
    const first = scenario.startAll(flags(lastStep));
    const chief = first[0] as ScenarioTask;
    const zero = await says(ctx, chief, /saved .*model\.ckpt-(\d+)/);
    ctx.check('the first checkpoint is of the start', Number(zero?.[1]) < 200, `step ${zero?.[1]}`);
    if (!(await allEnd(ctx, first, 'all tasks end by themselves', 1_800_000))) return;
    const [, w, b] = /.* W ([-\d.e]+) b ([-\d.e]+)/s.exec(chief.process.output) ?? [];
    ctx.check('W is near 0.1, b near 0.3', near(w, 0.1) && near(b, 0.3), `W = ${w}, b = ${b}`);
    await checkState(ctx, chiefHost, lastStep);
    await pythonReads(ctx, lab.hosts, lastStep);

    ctx.log('the same run again: it begins at the last step, and stops');
    const again = scenario.startAll(flags(lastStep));
    await allEnd(ctx, again, 'all end at once');
    const from = Number(/restoring .*model\.ckpt-(\d+)/.exec(again[0]!.process.output)?.[1]);
    ctx.check('it began where it had stopped', from >= lastStep, `step ${from}`);

    ctx.log('with the last step raised it goes on, and Ctrl-C saves and stops');
    const third = scenario.startAll(flags(lastStep + 1_000_000));
    for (const worker of third.slice(0, 3)) await says(ctx, worker, /step \d+ loss/);
    for (const task of third) task.process.kill('SIGINT');
    await allEnd(ctx, third, 'all end after Ctrl-C');
    const stopped = await newest(chiefHost);
    ctx.check('the last checkpoint is later than the first run', stopped > lastStep, `step ${stopped}`);
  },
};

const near = (text: string | undefined, value: number): boolean => Math.abs(Number(text) - value) < 1e-3;

async function newest(host: LabHost): Promise<number> {
  const { modelCheckpointPath } = parseCheckpointState(
    (await host.readFile('train_logs/checkpoint')).toString(),
  );
  return Number(/-(\d+)$/.exec(modelCheckpointPath)?.[1]);
}

async function checkState(ctx: Context, host: LabHost, lastStep: number): Promise<void> {
  const step = await newest(host);
  ctx.check(
    "train_logs/checkpoint on the chief's host names the last step",
    step >= lastStep && step < lastStep + 4,
    `${step}`,
  );
}

/** Gathers the newest checkpoint from the hosts' disks and has Python TensorFlow read it. */
async function pythonReads(ctx: Context, hosts: readonly LabHost[], lastStep: number): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), 'shoal-000-'));
  try {
    const { path, ours } = await gather(hosts, directory);
    const theirs = await askPython<Record<string, unknown>>(PYTHON, { read: path });
    const sorted = (values: object) =>
      Object.fromEntries(Object.entries(values).sort(([a], [b]) => (a < b ? -1 : 1)));
    ctx.equal('Python TensorFlow reads the checkpoint bit for bit', sorted(theirs), sorted(ours));
    ctx.check(
      'its global step is the last',
      Number(theirs.global_step) >= lastStep,
      String(theirs.global_step),
    );
    await readFile(join(directory, 'checkpoint'));
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}
