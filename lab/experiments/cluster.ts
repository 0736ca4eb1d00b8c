/** Asynchronous training on hosts that share nothing, undisturbed and then disturbed. */
import { sleep } from '../../src/async/deadline.js';
import { Crew, type CrewTask, saidAt } from '../crew.js';
import type { Context, Experiment } from '../experiment.js';

const START_MS = 120_000;
const DONE_MS = 600_000;

export const experiment: Experiment = {
  name: 'cluster',
  description: 'async training on 2 ps + 3 workers; a ps, a worker die and come back elsewhere',
  flags: {
    steps: { type: 'string', default: '1500', description: 'global steps of the undisturbed run' },
    rounds: { type: 'string', default: '1', description: 'how often the disturbed run is made' },
    calm: { type: 'boolean', default: false, description: 'the undisturbed run only' },
  },
  async run(ctx) {
    await undisturbed(ctx, Number(ctx.flags.steps));
    if (ctx.flags.calm) return;
    for (let round = 1; round <= Number(ctx.flags.rounds); round++) {
      ctx.log(`disturbed run ${round} of ${ctx.flags.rounds}`);
      await disturbed(ctx);
    }
  },
};

const title = ({ job, index, host }: CrewTask) => `${job} ${index} on ${host.name}`;

async function exitsWell(ctx: Context, tasks: readonly CrewTask[], name: string): Promise<void> {
  const exits = await Promise.all(tasks.map((task) => task.process.ended({ timeoutMs: DONE_MS })));
  const bad = tasks.filter((_, i) => exits[i]?.code !== 0);
  const detail = bad
    .map((task) => `${title(task)}: ${task.process.output.split('\n').slice(-6).join(' | ')}`)
    .join('; ');
  ctx.check(name, bad.length === 0, detail || `${tasks.length} tasks`);
}

async function undisturbed(ctx: Context, lastStep: number): Promise<void> {
  const lab = await ctx.lab({ hosts: 5 });
  const crew = new Crew(lab, { ps: 2, workers: 3, lastStep });
  // The workers first: the order must not matter.
  const workers = [2, 0, 1].map((index) => crew.start('worker', index));
  await sleep(1000, ctx.signal);
  const ps = [1, 0].map((index) => crew.start('ps', index));
  await exitsWell(ctx, [...workers, ...ps], 'all tasks end by themselves');
  const ends = workers.map((worker) => {
    const [, step, own] = /done at step (\d+); (\d+) steps were made here/.exec(worker.process.output) ?? [];
    return { step: Number(step), own: Number(own) };
  });
  const made = ends.reduce((sum, { own }) => sum + own, 0);
  const last = Math.max(...ends.map(({ step }) => step));
  ctx.equal('the global step counts every step of every worker', last, made);
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
    'W is near 0.1 and b near 0.3',
    Math.abs(Number(w) - 0.1) < 1e-3 && Math.abs(Number(b) - 0.3) < 1e-3,
    `W = ${w}, b = ${b}`,
  );
  await lab.dispose();
}

async function disturbed(ctx: Context): Promise<void> {
  const lab = await ctx.lab({ hosts: 7 });
  const crew = new Crew(lab, { ps: 2, workers: 3, lastStep: 1_000_000 });
  const ps = [0, 1].map((index) => crew.start('ps', index));
  const workers = [0, 1, 2].map((index) => crew.start('worker', index));
  const [w0, w1, w2] = workers as [CrewTask, CrewTask, CrewTask];
  await Promise.all(workers.map(({ process }) => process.waitFor(/ step \d+ of/, { timeoutMs: START_MS })));

  ctx.log('ps 1 is killed, and comes back on another host at another port');
  const killedAt = Date.now();
  (ps[1] as CrewTask).process.kill('SIGKILL');
  await goesOn(ctx, w0, /a step failed/, killedAt, 'the workers notice');
  const noticed = workers.map((worker) => saidAt(worker, /a step failed/, killedAt));
  const slowest = Math.max(...noticed.map((at) => (at ?? Date.now()) - killedAt));
  ctx.measure('until all workers knew that ps 1 was dead', slowest, 'ms');
  ctx.check('a dead process is found within a second', slowest < 1000, `${slowest} ms`);
  const ps1 = crew.start('ps', 1, lab.host(5));
  await Promise.all(
    workers.map((worker) => goesOn(ctx, worker, /training goes on/, killedAt, `${title(worker)} recovers`)),
  );
  await progresses(ctx, workers, 'training goes on after the loss of a ps');

  ctx.log('worker 2 is killed, and comes back on another host');
  w2.process.kill('SIGKILL');
  const again = crew.start('worker', 2, lab.host(6));
  await again.process.waitFor(/ step \d+ of/, { timeoutMs: START_MS });
  await progresses(ctx, [w0, w1, again], 'training goes on after the loss of a worker');

  ctx.log('worker 3 joins, worker 1 leaves');
  const added = crew.start('worker', 3, lab.host(4));
  await added.process.waitFor(/ step \d+ of/, { timeoutMs: START_MS });
  w1.process.kill('SIGINT');
  const left = await w1.process.ended({ timeoutMs: 60_000 });
  ctx.equal('the leaving worker says good-bye', left.code, 130);
  await progresses(ctx, [w0, again, added], 'training goes on with one more and one less');

  ctx.log('ps 1 is frozen: TensorFlow would wait for ever');
  const frozenAt = Date.now();
  ps1.host.freeze(ps1.process);
  await goesOn(ctx, w0, /a step failed/, frozenAt, 'a frozen ps is found');
  const bound = (saidAt(w0, /a step failed/, frozenAt) ?? Date.now()) - frozenAt;
  ctx.measure('until a frozen ps was given up', bound, 'ms');
  ctx.check('within the configured bound of 3 s, and a second for the news', bound < 4000, `${bound} ms`);
  ps1.host.thaw(ps1.process);
  await progresses(ctx, [w0, again, added], 'it thaws, and training goes on');

  const same = [ps[0] as CrewTask, w0].every(({ process }) => process.running);
  ctx.check('the processes that were not touched are the ones that were started', same);
  for (const task of [w0, again, added]) task.process.kill('SIGINT');
  await Promise.all([w0, again, added].map(({ process }) => process.ended({ timeoutMs: 60_000 })));
  await exitsWell(ctx, [ps[0] as CrewTask, ps1], 'the ps end when all workers have left');
  await lab.dispose();
}

/** Waits until a task has said something after a moment. */
async function goesOn(
  ctx: Context,
  task: CrewTask,
  what: RegExp,
  after: number,
  name: string,
): Promise<void> {
  const deadline = Date.now() + START_MS;
  while (saidAt(task, what, after) === undefined && Date.now() < deadline && task.process.running)
    await sleep(50, ctx.signal);
  ctx.check(
    name,
    saidAt(task, what, after) !== undefined,
    task.process.output.split('\n').slice(-4).join(' | '),
  );
}

async function progresses(ctx: Context, workers: readonly CrewTask[], name: string): Promise<void> {
  const before = workers.map((worker) => Crew.step(worker));
  const since = Date.now();
  const deadline = Date.now() + 60_000;
  const moved = () => workers.every((worker) => saidAt(worker, /^step \d+ of/, since) !== undefined);
  while (!moved() && Date.now() < deadline) await sleep(100, ctx.signal);
  ctx.check(name, moved(), `${before} → ${workers.map((worker) => Crew.step(worker))}`);
}
