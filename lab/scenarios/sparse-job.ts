/** Scenario 001 as a job, each task by `shoal task` on its own host. */
import type { Context } from '../experiment.js';
import { allEnd, Scenario, type ScenarioTask, savesOf } from './scenario-run.js';
import { gatheredSparse, makeData } from './sparse.js';

const PS = 2;
const WORKERS = 2;

export async function sparseJob(ctx: Context): Promise<void> {
  const lab = await ctx.lab({ hosts: PS + WORKERS });
  const scenario = new Scenario(lab, {
    program: 'examples/sparse-linear/job.ts',
    isJob: true,
    ps: PS,
    workers: WORKERS,
    logs: ctx.flags.logs as string | undefined,
  });
  // All workers have the same files, of which each reads its share.
  await makeData(
    ctx,
    lab,
    [2, 3].map((index) => lab.host(index)),
    { same: true },
  );
  ctx.log('as a job, to the end of its epoch');
  const tasks = scenario.startAll([
    ...['--train', `${lab.host(2).disk}/data/train*`],
    ...['--features', String(ctx.flags.features)],
    ...['--parts', String(PS)],
    ...['--epochs', '1'],
    ...['--save-secs', String(ctx.flags['save-secs'])],
  ]);
  if (!(await allEnd(ctx, tasks, 'all tasks end when the input is over', { timeoutMs: 1_800_000 }))) return;
  const saves = savesOf(tasks[0] as ScenarioTask);
  const options = { job: 'sparse-linear', home: '.shoal/sparse-linear', parts: PS, names: false };
  const { step, used } = await gatheredSparse(ctx, lab, options);
  ctx.equal('the last checkpoint is what was saved last', step, saves.at(-1)?.step);
  ctx.check('it has learnt', used > 0, `${used} rows in use`);
  await lab.dispose();
}
