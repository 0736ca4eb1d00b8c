/**
 * A worker that the ps reach and the chief does not: it continues to train, so a snapshot without it would be
 * inconsistent. Saves fail with a log line until the chief reaches the worker, or until no task does.
 */
import { sleep } from '../../src/base/async/deadline.js';
import type { Experiment } from '../experiment.js';
import type { LabHost } from '../hosts/hosts.js';
import { allEnd, nextOutput, Scenario, type ScenarioTask, waitForOutput } from '../scenarios/scenario-run.js';

const TIMEOUT_MS = 90_000;
const SAVED = /saved .*model\.ckpt-\d+/;
const FAILED = /saving .* failed.*/;

export const experiment: Experiment = {
  name: 'out-of-reach',
  description:
    'a worker that only the ps reach: no inconsistent snapshot; one that no task reaches: saved without it',
  needs: { isolation: 'required' },
  async run(ctx) {
    const lab = await ctx.lab({ hosts: 4 });
    const scenario = new Scenario(lab, {
      program: 'examples/linear-regression/classic.ts',
      ps: 2,
      workers: 2,
    });
    const tasks = scenario.startAll(['--last_step=100000000', '--save_secs=2']);
    const [chief, worker] = tasks as [ScenarioTask, ScenarioTask];
    await waitForOutput(ctx, chief, SAVED);
    await waitForOutput(ctx, worker, /step \d+ loss/);
    const next = (task: ScenarioTask, what: RegExp, from: number) =>
      nextOutput(ctx, task, what, from, TIMEOUT_MS);

    ctx.log('the chief and worker 1 do not reach each other; the ps reach both');
    await apart(chief.host, worker.host, 'add');
    const from = chief.process.output.length;
    const failed = await next(chief, FAILED, from);
    ctx.check(
      'the failure of a save that cannot pause the worker is logged',
      failed !== undefined,
      failed?.slice(0, 200),
    );
    const known = worker.process.output.length;
    ctx.check('the worker continues to train', (await next(worker, /step \d+ loss/, known)) !== undefined);
    await next(chief, /unreachable from here, but/, from);
    const since = chief.process.output.length;
    await sleep(10_000, ctx.signal);
    const saved = SAVED.exec(chief.process.output.slice(since))?.[0];
    ctx.check('nothing is saved meanwhile', saved === undefined, saved);

    ctx.log('they reach each other again');
    await apart(chief.host, worker.host, 'del');
    const again = await next(chief, SAVED, chief.process.output.length);
    ctx.check('it is saved again', again !== undefined, again);

    ctx.log("worker 1's host is disconnected: no task reaches it, and its end cannot be detected");
    await worker.host.disconnect();
    const without = await next(chief, SAVED, chief.process.output.length + 1);
    ctx.check('it is saved without the worker', without !== undefined, without);
    const later = await next(chief, SAVED, chief.process.output.length);
    ctx.check('and once more', later !== undefined, later);

    worker.process.kill('SIGKILL');
    await worker.host.reconnect();
    const rest = tasks.filter((task) => task !== worker);
    for (const task of rest) task.process.kill('SIGINT');
    await allEnd(ctx, rest, 'the others end after Ctrl-C');
  },
};

/** Drops packets between two hosts, or stops doing so. */
async function apart(a: LabHost, b: LabHost, verb: 'add' | 'del'): Promise<void> {
  for (const [here, there] of [
    [a, b],
    [b, a],
  ] as const) {
    const { code, stderr } = await here.exec('ip', ['route', verb, 'blackhole', `${there.address}/32`]);
    if (code !== 0) throw new Error(`${here.name}: ip route ${verb}: ${stderr}`);
  }
}
