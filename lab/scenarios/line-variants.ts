/** Variants of scenario 000 with few steps. */
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { GatherOptions } from '../cluster/gather.js';
import type { Context } from '../experiment.js';
import type { LabOptions } from '../hosts/hosts.js';
import { Leftovers } from '../hosts/leftovers.js';
import { CLASSIC, gathered, stoppedAt } from './line.js';
import { allEnd, Scenario, type ScenarioOptions, type ScenarioTask } from './scenario-run.js';

const LOGS = 'train_logs';

interface Variant {
  readonly title: string;
  readonly lab: LabOptions;
  readonly cluster: Omit<ScenarioOptions, 'program'>;
  readonly flags?: readonly string[];
  /** Where its checkpoints are; undefined if it saves none. */
  readonly gather?: GatherOptions;
  /** Whether the disks are emptied before the second run. */
  readonly wipe?: boolean;
}

export async function variants(ctx: Context): Promise<void> {
  const peers = { job: LOGS };
  await variant(ctx, {
    title: 'one ps',
    lab: { hosts: 3 },
    cluster: { ps: 1, workers: 2 },
    gather: peers,
  });
  await variant(ctx, {
    title: 'all tasks on one host',
    lab: { hosts: 1 },
    cluster: { ps: 2, workers: 2, hostOf: () => 0 },
    gather: peers,
  });
  await variant(ctx, {
    title: 'checkpoints off',
    lab: { hosts: 4 },
    cluster: { ps: 2, workers: 2 },
    flags: ['--save_secs=0'],
  });
  const shared = await mkdtemp(join(tmpdir(), 'shoal-shared-'));
  try {
    await variant(ctx, {
      title: 'a shared directory as the store, and disks that are emptied before the next run',
      lab: { hosts: 4, visible: [shared] },
      cluster: { ps: 2, workers: 2 },
      flags: [`--store=file:${shared}`],
      gather: { ...peers, store: `file:${shared}` },
      wipe: true,
    });
    const left = (await readdir(shared, { recursive: true })).filter((name) => name.endsWith('.part'));
    ctx.equal('no temporary file is left in the shared directory', left, []);
  } finally {
    await rm(shared, { recursive: true, force: true });
  }
}

async function variant(
  ctx: Context,
  { title, lab: labOptions, cluster, ...options }: Variant,
): Promise<void> {
  const lastStep = Number(ctx.flags['few-steps']);
  ctx.log(`${title}, to step ${lastStep}`);
  const lab = await ctx.lab(labOptions);
  const scenario = new Scenario(lab, {
    program: CLASSIC,
    ...cluster,
    logs: ctx.flags.logs as string | undefined,
  });
  const leftovers = await Leftovers.before(lab);
  const run = async (last: number) => {
    const flags = [`--last_step=${last}`, '--save_secs=600', ...(options.flags ?? [])];
    const tasks = scenario.startAll(flags);
    const ended = await allEnd(ctx, tasks, 'all tasks end by themselves', { timeoutMs: 900_000 });
    return ended ? (tasks[0] as ScenarioTask) : undefined;
  };
  const chief = await run(lastStep);
  if (chief === undefined) return;
  await leftovers.check(ctx, scenario, { keeps: options.gather ? 5 : 0, belongs: ['.shoal', LOGS] });
  if (!options.gather) {
    ctx.check('nothing was saved', !/^saved /m.test(chief.process.output));
    await lab.dispose();
    return;
  }
  const step = await gathered(ctx, lab, options.gather);
  stoppedAt(ctx, step, lastStep, cluster.workers);
  if (options.wipe) for (const host of lab.hosts) await host.wipeDisk();
  const again = await run(step + 100);
  const from = /restoring .*model\.ckpt-(\d+)/.exec(again?.process.output ?? '')?.[1];
  ctx.equal('run again with the last step raised it resumes', Number(from), step);
  stoppedAt(ctx, await gathered(ctx, lab, options.gather), step + 100, cluster.workers);
  await lab.dispose();
}
