/** What the parts of scenario 000 share. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { askPython } from '../../test/python.js';
import { type GatherOptions, gather, valuesOf } from '../cluster/gather.js';
import type { Context } from '../experiment.js';
import type { Lab } from '../hosts/hosts.js';
import type { ScenarioTask } from './scenario-run.js';

export const CLASSIC = 'examples/linear-regression/classic.ts';
export const JOB = 'examples/linear-regression/job.ts';
/** From W = -1, the farthest start, 50,000 steps of Adagrad with 0.01 reach W = 0.076 and b = 0.313. */
const CONVERGED = { at: 50_000, within: 0.03 };
/** With the larger rate of the failover jobs. */
export const CONVERGED_SOON = { at: 300, within: 1e-3 };

const PYTHON = new URL('../../src/training/train/testing/saver.py', import.meta.url);

const inOrder = (values: object) => Object.entries(values).sort(([a], [b]) => (a < b ? -1 : 1));

/** Compares what Python TensorFlow reads of a checkpoint with what was read without TensorFlow. */
export async function pythonReads(
  ctx: Context,
  path: string,
  what: string,
): Promise<Record<string, unknown>> {
  const { ours } = await valuesOf(path);
  const theirs = await askPython<Record<string, unknown>>(PYTHON, { read: path });
  ctx.equal(`${what}: Python TensorFlow reads it bit for bit`, inOrder(theirs), inOrder(ours));
  return theirs;
}

/** Gathers the newest checkpoint from the hosts' disks; Python TensorFlow reads it. Returns its step. */
export async function gathered(ctx: Context, lab: Lab, options: GatherOptions): Promise<number> {
  const directory = await mkdtemp(join(tmpdir(), 'shoal-000-'));
  try {
    const { path, step } = await gather(lab, directory, options);
    const theirs = await pythonReads(ctx, path, 'the checkpoint that `shoal checkpoint pull` gathered');
    ctx.equal('its global step is in its name', Number(theirs.global_step), step);
    return step;
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** Asserts the last step. Each worker may add a step in flight, and one before it sees the last step. */
export function stoppedAt(ctx: Context, step: number, lastStep: number, workers: number): void {
  ctx.check(
    `all workers stopped at step ${lastStep}`,
    step >= lastStep && step < lastStep + 2 * workers,
    `${step}`,
  );
}

/** Asserts W → 0.1 and b → 0.3, if there were enough steps. */
export function learnt(
  ctx: Context,
  { process }: ScenarioTask,
  pattern: RegExp,
  lastStep: number,
  { at, within } = CONVERGED,
): void {
  const [, w, b] = pattern.exec(process.output) ?? [];
  const near = (text: string | undefined, value: number) => Math.abs(Number(text) - value) < within;
  const found = `W = ${w}, b = ${b}`;
  if (lastStep >= at) ctx.check('W is near 0.1, b near 0.3', near(w, 0.1) && near(b, 0.3), found);
  else ctx.log(`${found}: ${lastStep} steps are too few for 0.1 and 0.3`);
}
