/** What the parts of scenario 001 share: data on the workers' disks, what Python reads, memory. */
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { writeSparseExamples } from '../../examples/sparse-linear/sparse-examples.js';
import { askPython } from '../../test/python.js';
import { diskOf, type GatherOptions, gather } from '../cluster/gather.js';
import type { Context } from '../experiment.js';
import type { Lab, LabHost } from '../hosts/hosts.js';
import type { MemoryWatch } from '../hosts/memory.js';
import type { ScenarioTask } from './scenario-run.js';

const PYTHON = new URL('../programs/read-sparse.py', import.meta.url);
const VALIDATION = 5000;
/** Bytes of a row: two weights with two FTRL slots each. */
const ROW_BYTES = 2 * 3 * 4;
/** What a ps may have besides its part of the variables and a snapshot of it: Node, TensorFlow, what is being written. */
const TASK_MB = 500;
/** By how much the chief's peak may differ from another worker's, whatever the size of a checkpoint. */
const CHIEF_MB = 200;

export async function makeData(
  ctx: Context,
  lab: Lab,
  hosts: readonly LabHost[],
  /** Whether all hosts get the same records, or each its own. */
  { same = false }: { readonly same?: boolean } = {},
): Promise<void> {
  const [features, records] = [Number(ctx.flags.features), Number(ctx.flags.records)];
  for (const [i, host] of hosts.entries()) {
    const directory = join(diskOf(lab, host), 'data');
    const common = { directory, features };
    await writeSparseExamples({ ...common, prefix: 'train', records, files: 2, seed: same ? 1 : i + 1 });
    await writeSparseExamples({ ...common, prefix: 'valid', records: VALIDATION, seed: 100 });
  }
  ctx.log(`${records} records on each of ${hosts.length} hosts${same ? ', the same on all' : ''}`);
}

interface Seen {
  readonly shapes: Readonly<Record<string, readonly number[]>>;
  readonly sums: Readonly<Record<string, number>>;
  readonly used: number;
  readonly inputs: Readonly<Record<string, string | null>>;
  readonly outputs: Readonly<Record<string, string | null>>;
}

export interface SparseCheckpoint {
  readonly step: number;
  /** Rows of the weights that are not zero. */
  readonly used: number;
}

/** Gathers the newest checkpoint; Python TensorFlow reads it, and the collections of its `.meta`. */
export async function gatheredSparse(
  ctx: Context,
  lab: Lab,
  { parts, names, ...options }: GatherOptions & { readonly parts: number; readonly names: boolean },
): Promise<SparseCheckpoint> {
  const directory = await mkdtemp(join(tmpdir(), 'shoal-001-'));
  try {
    const { path, step, sums } = await gather(lab, directory, { ...options, values: false });
    const seen = await askPython<Seen>(PYTHON, { path });
    const inOrder = (record: object) => Object.entries(record).sort(([a], [b]) => (a < b ? -1 : 1));
    ctx.equal(
      'Python reads every tensor bit for bit, weights and both slots',
      inOrder(seen.sums),
      inOrder(sums),
    );
    ctx.equal(
      'the checkpoint has weights, bias, both FTRL slots of each, and the step',
      Object.keys(seen.shapes).sort(),
      ['bias', 'bias/Ftrl', 'bias/Ftrl_1', 'global_step', 'weights', 'weights/Ftrl', 'weights/Ftrl_1'],
    );
    ctx.equal('the weights are complete', seen.shapes.weights, [Number(ctx.flags.features), 2]);
    const files = (await readdir(directory)).filter((name) => name.includes('.data-'));
    ctx.equal('each ps has written a shard', files.length, parts);
    if (names) {
      ctx.check(
        'the .meta names the tensors for serving, and they are in its graph',
        typeof seen.inputs.examples === 'string' && typeof seen.outputs.scores === 'string',
        JSON.stringify({ inputs: seen.inputs, outputs: seen.outputs }),
      );
    }
    return { step, used: seen.used };
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** A checkpoint does not pass through the chief; a ps has its part of the variables, and a bounded extra. */
export function checkMemory(
  ctx: Context,
  watch: MemoryWatch,
  tasks: readonly ScenarioTask[],
  ps: number,
): void {
  const peak = ({ process }: ScenarioTask) => watch.peakMb(process.pid);
  for (const task of tasks) ctx.measure(`peak memory of ${task.name}`, peak(task), 'MB');
  ctx.measure('the most that all tasks had at once', watch.togetherMb, 'MB');
  const checkpointMb = (Number(ctx.flags.features) * ROW_BYTES) / 2 ** 20;
  const [chief, ...others] = tasks.filter(({ name }) => name.startsWith('worker')) as [
    ScenarioTask,
    ...ScenarioTask[],
  ];
  const other = Math.max(...others.map(peak));
  ctx.check(
    `the chief has at most ${CHIEF_MB} MB more than another worker, the checkpoint being of ${checkpointMb.toFixed(0)} MB`,
    peak(chief) <= other + CHIEF_MB,
    `${peak(chief).toFixed(0)} MB, another worker ${other.toFixed(0)} MB`,
  );
  const share = checkpointMb / ps;
  const largest = Math.max(...tasks.filter(({ name }) => name.startsWith('ps')).map(peak));
  ctx.check(
    `a ps has at most its part of the variables, ${share.toFixed(0)} MB, a snapshot of it, and ${TASK_MB} MB`,
    largest <= 2 * share + TASK_MB,
    `${largest.toFixed(0)} MB`,
  );
}
