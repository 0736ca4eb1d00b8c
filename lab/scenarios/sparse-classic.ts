/** Scenario 001 by the classic program: every "must" of it. */
import { join } from 'node:path';
import { parseCheckpointState } from '../../src/tensorflow/formats/checkpoint-state/checkpoint-state.js';
import { scalarsIn } from '../../src/training/train/testing/workspace.js';
import { diskOf, newestStep } from '../cluster/gather.js';
import type { Context } from '../experiment.js';
import type { LabHost } from '../hosts/hosts.js';
import { Leftovers } from '../hosts/leftovers.js';
import { MemoryWatch } from '../hosts/memory.js';
import {
  allEnd,
  interrupt,
  Scenario,
  type ScenarioTask,
  savedByTime,
  savesOf,
  waitForOutput,
} from './scenario-run.js';
import { checkMemory, gatheredSparse, makeData } from './sparse.js';

const LOGDIR = 'supervisor';
const BATCH = 1000;
const LONG = { timeoutMs: 3_600_000 };
/** From this size on a checkpoint takes long enough for steps to be seen meanwhile. */
const LARGE = 10_000_000;

export async function sparseClassic(ctx: Context): Promise<void> {
  const [ps, workers, saveSecs] = ['ps', 'workers', 'save-secs'].map((name) => Number(ctx.flags[name])) as [
    number,
    number,
    number,
  ];
  const next = Number(ctx.flags.next ?? (ps === 3 ? 1 : ps + 1));
  const lab = await ctx.lab({ hosts: Math.max(ps, next) + workers });
  const hostOf = (job: 'ps' | 'worker', index: number) => (job === 'worker' ? index : workers + index);
  const logs = ctx.flags.logs as string | undefined;
  const options = { program: 'examples/sparse-linear/classic.ts', workers, hostOf, logs };
  const leftovers = await Leftovers.before(lab);
  const nothingLeft = (scenario: Scenario, away: readonly LabHost[] = []) =>
    leftovers.check(ctx, scenario, {
      keeps: 2,
      belongs: ['.shoal', LOGDIR, 'data'],
      away,
    });
  await makeData(ctx, lab, lab.hosts.slice(0, workers));
  const flags = (epochs: number) => [
    `--features=${ctx.flags.features}`,
    `--epochs=${epochs}`,
    `--save_model_secs=${saveSecs}`,
    '--validate_steps=10',
  ];
  const newest = () => newestStep(lab.host(0), LOGDIR);

  ctx.log(`${ps} ps, ${workers} workers`);
  const scenario = new Scenario(lab, { ...options, ps });
  const first = scenario.startAll(flags(Number(ctx.flags.epochs)));
  using watch = new MemoryWatch(first.map(({ process }) => process.pid));
  if (!(await allEnd(ctx, first, 'all tasks end when the epochs are over', LONG))) return;
  const chief = first[0] as ScenarioTask;
  savedByTime(ctx, chief, saveSecs);
  validated(ctx, chief);
  checkMemory(ctx, watch, first, ps);
  trainedMeanwhile(ctx, first.slice(0, workers));
  const made = first
    .slice(0, workers)
    .map(({ process }) => Number(/done: (\d+) steps/.exec(process.output)?.[1]));
  const epochSteps = Math.ceil((Number(ctx.flags.records) * Number(ctx.flags.epochs)) / BATCH);
  // The chief's summaries of the loss take a batch each, as with TensorFlow's own supervisor.
  const summaries = await scalarsIn(join(diskOf(lab, lab.host(0)), LOGDIR), 'loss');
  ctx.equal(
    'every worker read its records to the end of the epochs',
    made.map((steps, worker) => (worker === 0 ? steps + summaries.length : steps)),
    made.map(() => epochSteps),
  );
  const { step, used } = await gatheredSparse(ctx, lab, { job: LOGDIR, parts: ps, names: true });
  ctx.equal('the last checkpoint counts every step of every worker', step, sum(made));
  ctx.equal("the `checkpoint` file on the chief's host names it", await newest(), step);
  await twoAreKept(ctx, scenario);
  await nothingLeft(scenario);

  ctx.log(`again with ${next} ps, from the checkpoint of ${ps}, until Ctrl-C`);
  const other = new Scenario(lab, { ...options, ps: next });
  const second = other.startAll(flags(1000));
  const restored = await waitForOutput(
    ctx,
    second[0] as ScenarioTask,
    /restoring .*model\.ckpt-(\d+)/,
    LONG.timeoutMs,
  );
  ctx.equal('it resumes from the last checkpoint', Number(restored?.[1]), step);
  for (const worker of second.slice(0, workers))
    await waitForOutput(ctx, worker, /^step \d+ loss/m, LONG.timeoutMs);
  await interrupt(ctx, second);
  const stopped = await newest();
  ctx.check('Ctrl-C saved what there was', stopped > step, `step ${stopped}`);

  ctx.log('started again after Ctrl-C it resumes from there');
  const third = other.startAll(flags(1));
  await allEnd(ctx, third, 'all tasks end when the epoch is over', LONG);
  const again = /restoring .*model\.ckpt-(\d+)/.exec(third[0]?.process.output ?? '')?.[1];
  ctx.equal('it resumed from the checkpoint of Ctrl-C', Number(again), stopped);
  const last = await gatheredSparse(ctx, lab, { job: LOGDIR, parts: next, names: true });
  ctx.check('and continued to train', last.step > stopped, `step ${last.step}`);
  ctx.check(
    'the weights continue from their values',
    last.used >= used,
    `${used} rows in use, then ${last.used}`,
  );
  const away = Array.from({ length: Math.max(0, ps - next) }, (_, i) => scenario.hostOf('ps', next + i));
  await nothingLeft(other, away);
  if (away.length > 0) {
    ctx.log(`the ${away.length} hosts that had no part are back: ${ps} ps again, until Ctrl-C`);
    const back = scenario.startAll(flags(1000));
    for (const worker of back.slice(0, workers))
      await waitForOutput(ctx, worker, /^step \d+ loss/m, LONG.timeoutMs);
    await interrupt(ctx, back);
    ctx.check('training continued', (await newest()) > last.step, `step ${await newest()}`);
    await nothingLeft(scenario);
  }
  await lab.dispose();
}

const sum = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0);

function validated(ctx: Context, { process }: ScenarioTask): void {
  const found = [
    ...process.output.matchAll(/validation at .*?loss ([\d.]+), accuracy ([\d.]+), auc ([\d.]+)/g),
  ];
  const [, loss, accuracy, auc] = (found.at(-1) ?? []).map(Number);
  ctx.check(
    'it was validated, and has learnt: loss below 0.69, accuracy and AUC above 0.5',
    loss !== undefined && loss < 0.69 && (accuracy as number) > 0.5 && (auc as number) > 0.5,
    `${found.length} validations, the last: loss ${loss}, accuracy ${accuracy}, AUC ${auc}`,
  );
}

/** When a checkpoint is committed, workers have made steps that are not in it. */
function trainedMeanwhile(ctx: Context, workers: readonly ScenarioTask[]): void {
  const steps = workers.flatMap(({ lines }) =>
    lines.flatMap(({ at, text }) => {
      const step = /^step (\d+) loss/.exec(text)?.[1];
      return step === undefined ? [] : [{ at, step: Number(step) }];
    }),
  );
  // The last one is saved after training.
  const saves = savesOf(workers[0] as ScenarioTask).slice(0, -1);
  const ahead = saves.map((save) => {
    const before = steps.filter(({ at }) => at <= save.at).map(({ step }) => step);
    return Math.max(0, ...before) - save.step;
  });
  const text = `when each was committed, training was ahead by ${ahead.join(', ')} steps`;
  if (Number(ctx.flags.features) < LARGE) ctx.log(text);
  else
    ctx.check(
      'training continues while a checkpoint is written',
      ahead.some((count) => count > 0),
      text,
    );
}

async function twoAreKept(ctx: Context, scenario: Scenario): Promise<void> {
  const state = await scenario.hostOf('worker', 0).readFile(`${LOGDIR}/checkpoint`);
  const { allModelCheckpointPaths } = parseCheckpointState(state.toString());
  ctx.check('two checkpoints are kept', allModelCheckpointPaths.length === 2, allModelCheckpointPaths.join());
}
