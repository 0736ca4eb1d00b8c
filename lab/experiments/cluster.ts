/** Asynchronous training on hosts that share nothing, undisturbed and then disturbed. */
import { sleep } from '../../src/base/async/deadline.js';
import { disturbedRound } from '../cluster/disturbed-round.js';
import { LabCluster, type LabTask } from '../cluster/lab-tasks.js';
import { allExit, endOf, START_MS } from '../cluster/task-checks.js';
import type { Context, Experiment } from '../experiment.js';

export const experiment: Experiment = {
  name: 'cluster',
  description: 'async training on 2 ps + 3 workers; tasks die, freeze, are partitioned, join and leave',
  flags: {
    // Adagrad at 0.01 is within a thousandth after 8,000 to 13,000 steps.
    steps: { type: 'string', default: '16000', description: 'global steps of the undisturbed run' },
    rounds: { type: 'string', default: '1', description: 'how often the disturbed run is made' },
    calm: { type: 'boolean', default: false, description: 'the undisturbed run only' },
    disturbed: { type: 'boolean', default: false, description: 'the disturbed runs only' },
    logs: { type: 'string', description: "a directory for each task's output in the disturbed runs" },
  },
  async run(ctx) {
    if (!ctx.flags.disturbed) await undisturbed(ctx, Number(ctx.flags.steps));
    if (ctx.flags.calm) return;
    const rounds = Number(ctx.flags.rounds);
    const found = new Map<string, number[]>();
    for (let round = 1; round <= rounds; round++) {
      ctx.log(`disturbed run ${round} of ${rounds}`);
      const times = await disturbedRound(ctx, ctx.flags.logs as string | undefined);
      for (const [what, ms] of Object.entries(times)) found.set(what, [...(found.get(what) ?? []), ms]);
    }
    if (rounds === 1) return;
    for (const [what, times] of found) {
      ctx.measure(`${what}, median of ${times.length}`, median(times), 'ms');
      ctx.measure(`${what}, longest`, Math.max(...times), 'ms');
    }
  },
};

async function undisturbed(ctx: Context, lastStep: number): Promise<void> {
  const lab = await ctx.lab({ hosts: 5 });
  const cluster = new LabCluster(lab, { ps: 2, workers: 3, lastStep });
  // The workers first: the order must not matter.
  const workers = [2, 0, 1].map((index) => cluster.start('worker', index));
  await sleep(1000, ctx.signal);
  const ps = [1, 0].map((index) => cluster.start('ps', index));
  if (lab.isolated && process.env.SHOAL_ENGINE !== 'grpc') await onlyAgentsListen(ctx, [...workers, ...ps]);
  await allExit(ctx, [...workers, ...ps], 'all tasks end by themselves');
  const ends = workers.map(endOf);
  const made = ends.reduce((sum, { own }) => sum + own, 0);
  const last = Math.max(...ends.map(({ step }) => step));
  ctx.check(
    'the global step counts every step of every worker',
    last === made,
    `${last}, made of ${ends.map(({ own }) => own)}`,
  );
  ctx.check(
    'all stop at the last step',
    ends.every(({ step }) => step >= lastStep && step < lastStep + 3),
    `${ends.map(({ step }) => step)}`,
  );
  ctx.check(
    'every worker took part',
    ends.every(({ own }) => own > 0),
    `${ends.map(({ own }) => own)}`,
  );
  const [, w, b] = /W = \[([-\d.e]+)\] · b = \[([-\d.e]+)\]/.exec(workers[0]?.process.output ?? '') ?? [];
  ctx.check(
    'W is within a thousandth of 0.1, b of 0.3',
    Math.abs(Number(w) - 0.1) < 1e-3 && Math.abs(Number(b) - 0.3) < 1e-3,
    `W = ${w}, b = ${b}`,
  );
  await lab.dispose();
}

/** Asserts that the only listening port in the network of each host is that of the agent. */
async function onlyAgentsListen(ctx: Context, tasks: readonly LabTask[]): Promise<void> {
  const trains = tasks.filter(({ job }) => job === 'worker');
  await Promise.all(trains.map(({ process }) => process.waitFor(/ step \d+ of/, { timeoutMs: START_MS })));
  const open = await Promise.all(
    tasks.map(async ({ host, address }) => {
      const { stdout } = await host.exec('ss', ['-Hltn']);
      const found = stdout
        .trim()
        .split('\n')
        .map((line) => line.split(/\s+/)[3]);
      return { address, found };
    }),
  );
  ctx.check(
    'only the agent listens on each host',
    open.every(({ address, found }) => found.length === 1 && found[0] === address),
    open.map(({ found }) => found.join(' ')).join(', '),
  );
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const [low, high] = [sorted[(sorted.length - 1) >> 1], sorted[sorted.length >> 1]] as [number, number];
  return (low + high) / 2;
}
