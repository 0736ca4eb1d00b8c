/** Scenario 000 by the classic program: every "must" of it. */

import { diskOf, newestStep } from '../cluster/gather.js';
import type { Context } from '../experiment.js';
import { Leftovers } from '../hosts/leftovers.js';
import { CLASSIC, gathered, learnt, pythonReads, stoppedAt } from './line.js';
import {
  allEnd,
  interrupt,
  Scenario,
  type ScenarioTask,
  SHOAL,
  savedByTime,
  savesOf,
  waitForOutput,
} from './scenario-run.js';

const LOGS = 'train_logs';
const MORE = 1_000_000;

export async function classicProgram(ctx: Context): Promise<void> {
  const [ps, workers, lastStep, saveSecs] = ['ps', 'workers', 'steps', 'save-secs'].map((name) =>
    Number(ctx.flags[name]),
  ) as [number, number, number, number];
  // One additional host, from which a checkpoint is requested.
  const lab = await ctx.lab({ hosts: ps + workers + 1 });
  const scenario = new Scenario(lab, {
    program: CLASSIC,
    ps,
    workers,
    logs: ctx.flags.logs as string | undefined,
  });
  const leftovers = await Leftovers.before(lab);
  const nothingLeft = () => leftovers.check(ctx, scenario, { keeps: 5, belongs: ['.shoal', LOGS, 'pulled'] });
  const chiefHost = scenario.hostOf('worker', 0);
  const newest = () => newestStep(chiefHost, LOGS);
  const run = (last: number) => scenario.startAll([`--last_step=${last}`, `--save_secs=${saveSecs}`]);

  ctx.log(`the classic program, to step ${lastStep}`);
  const begun = Date.now();
  const first = run(lastStep);
  const chief = first[0] as ScenarioTask;
  if (!(await allEnd(ctx, first, 'all tasks end by themselves', { timeoutMs: 3_600_000 }))) return;
  ctx.measure('from the start of all tasks to the end of the last', (Date.now() - begun) / 1000, 's');
  const start = savesOf(chief)[0]?.step ?? Number.NaN;
  ctx.check('the first checkpoint is of the start', start < Math.max(200, lastStep / 10), `step ${start}`);
  savedByTime(ctx, chief, saveSecs);
  learnt(ctx, chief, /.* W ([-\d.e]+) b ([-\d.e]+)/s, lastStep);
  const done = await newest();
  stoppedAt(ctx, done, lastStep, workers);
  ctx.equal(
    "the `checkpoint` file on the chief's host names what is gathered",
    await gathered(ctx, lab, { job: LOGS }),
    done,
  );
  for (const host of lab.hosts) {
    if (host === chiefHost) continue;
    ctx.check(`no ${LOGS} on ${host.name}`, !(await host.listFiles()).includes(LOGS));
  }
  await nothingLeft();

  ctx.log('the same run again: it begins at the last step, and stops');
  const again = run(lastStep);
  await allEnd(ctx, again, 'all end at once');
  ctx.equal('it began where it had stopped', restored(again), done);
  ctx.equal('and made no step', await newest(), done);

  ctx.log('with the last step raised it resumes');
  const third = run(lastStep + MORE);
  for (const worker of third.slice(0, workers)) {
    const [, step] = (await waitForOutput(ctx, worker, /step (\d+) loss/)) ?? [];
    ctx.check(`${worker.name} resumes from there`, Number(step) >= done, `step ${step}`);
  }
  await pullWhileRunning(ctx, lab.host(ps + workers), scenario, diskOf(lab, lab.host(ps + workers)));
  await interrupt(ctx, third);
  const stopped = await newest();
  ctx.check('Ctrl-C saved what there was', stopped > done, `step ${stopped}`);

  ctx.log('started again after Ctrl-C it resumes from there');
  const fourth = run(stopped + 200);
  await allEnd(ctx, fourth, 'all end by themselves again', { timeoutMs: 1_800_000 });
  ctx.equal('it resumed from the checkpoint of Ctrl-C', restored(fourth), stopped);
  stoppedAt(ctx, await newest(), stopped + 200, workers);
  await gathered(ctx, lab, { job: LOGS });
  await nothingLeft();
  await lab.dispose();
}

const restored = ([chief]: readonly ScenarioTask[]): number =>
  Number(/restoring .*model\.ckpt-(\d+)/.exec(chief?.process.output ?? '')?.[1]);

/** A host that is no task's asks the running cluster for its newest checkpoint. */
async function pullWhileRunning(
  ctx: Context,
  host: ReturnType<Scenario['hostOf']>,
  scenario: Scenario,
  disk: string,
): Promise<void> {
  const { code, stdout, stderr } = await host.exec(
    process.execPath,
    [SHOAL, 'checkpoint', 'pull', 'latest', 'pulled', '--agent', scenario.address('worker', 0), '--json'],
    { env: { SHOAL_CLUSTER_TOKEN: scenario.token }, timeoutMs: 300_000 },
  );
  if (!ctx.check('`shoal checkpoint pull` gathers it while training continues', code === 0, stderr.trim()))
    return;
  const { name } = JSON.parse(stdout) as { name: string };
  await pythonReads(ctx, `${disk}/pulled/${name}`, 'what was pulled of the running cluster');
}
