/** Scenario 000 as a job, each task by `shoal task` on its own host. */

import { EXIT } from '../../src/base/errors/exit-codes.js';
import { newestStep } from '../cluster/gather.js';
import type { Context } from '../experiment.js';
import { Leftovers } from '../hosts/leftovers.js';
import { gathered, JOB, learnt, stoppedAt } from './line.js';
import {
  allEnd,
  interrupt,
  Scenario,
  type ScenarioTask,
  savedByTime,
  savesOf,
  waitForOutput,
} from './scenario-run.js';

const HOME = '.shoal/linear-regression';

export async function jobProgram(ctx: Context): Promise<void> {
  const [ps, workers, lastStep, saveSecs] = ['ps', 'workers', 'job-steps', 'save-secs'].map((name) =>
    Number(ctx.flags[name]),
  ) as [number, number, number, number];
  const lab = await ctx.lab({ hosts: ps + workers });
  const scenario = new Scenario(lab, {
    program: JOB,
    isJob: true,
    ps,
    workers,
    logs: ctx.flags.logs as string | undefined,
  });
  const leftovers = await Leftovers.before(lab);
  const nothingLeft = () => leftovers.check(ctx, scenario, { keeps: 3, belongs: ['.shoal'] });
  const newest = () => newestStep(scenario.hostOf('worker', 0), `${HOME}/worker-0/checkpoints`);
  const run = (last: number) => scenario.startAll(['--steps', String(last), '--save-secs', String(saveSecs)]);

  ctx.log(`the job, to step ${lastStep}`);
  const first = run(lastStep);
  const chief = first[0] as ScenarioTask;
  if (!(await allEnd(ctx, first, 'all tasks end by themselves', { timeoutMs: 1_800_000 }))) return;
  const start = savesOf(chief)[0]?.step ?? Number.NaN;
  ctx.check('the first checkpoint is of the start', start < Math.max(200, lastStep / 10), `step ${start}`);
  savedByTime(ctx, chief, saveSecs);
  learnt(ctx, chief, /· W = \[([-\d.e]+)\] · b = \[([-\d.e]+)\]/, lastStep);
  const done = await newest();
  stoppedAt(ctx, done, lastStep, workers);
  ctx.equal('the chief names what is gathered', await gathered(ctx, lab, options), done);
  await nothingLeft();

  ctx.log('with the last step raised it resumes, until Ctrl-C');
  const second = run(lastStep + 1_000_000);
  ctx.equal('it resumes from there', await restoredStep(ctx, second), done);
  for (const worker of second.slice(0, workers)) await waitForOutput(ctx, worker, /step \d+ of/);
  await interrupt(ctx, second, [0, EXIT.interrupted]);
  const stopped = await newest();
  ctx.check('Ctrl-C saved what there was', stopped > done, `step ${stopped}`);

  ctx.log('started again after Ctrl-C it resumes from there');
  const third = run(stopped + 200);
  ctx.equal('it resumed from the checkpoint of Ctrl-C', await restoredStep(ctx, third), stopped);
  await allEnd(ctx, third, 'all end by themselves again', { timeoutMs: 1_800_000 });
  stoppedAt(ctx, await newest(), stopped + 200, workers);
  await nothingLeft();
  await lab.dispose();
}

const options = { job: 'linear-regression', home: HOME };

async function restoredStep(ctx: Context, [chief]: readonly ScenarioTask[]): Promise<number> {
  const match = await waitForOutput(ctx, chief as ScenarioTask, /restored model\.ckpt-(\d+)/);
  return Number(match?.[1]);
}
