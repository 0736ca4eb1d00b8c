/** Scenario 001: very many sparse features over m ps, five workers, files on each worker's own disk, the classic program. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseCheckpointState } from '../../src/formats/checkpoint-state/checkpoint-state.js';
import { askPython } from '../../test/python.js';
import type { Context, Experiment } from '../experiment.js';
import { gather } from '../gather.js';
import type { LabHost } from '../hosts.js';
import { ROOT } from '../root.js';
import { allEnd, LOADER, Scenario, type ScenarioTask, says } from '../scenario.js';

const PYTHON = new URL('../programs/read-sparse.py', import.meta.url);
const EXAMPLE = 'examples/sparse-linear';

export const experiment: Experiment = {
  name: '001',
  description: 'scenario 001: a sparse model over m ps trains, saves and is restored with another m',
  flags: {
    ps: { type: 'string', default: '2', description: 'how many ps' },
    workers: { type: 'string', default: '5', description: 'how many workers' },
    features: {
      type: 'string',
      default: '1000000',
      description: 'rows of the weights; 30000000 is the real size',
    },
    records: { type: 'string', default: '30000', description: 'records on each worker' },
    epochs: { type: 'string', default: '2', description: 'how often each worker reads its records' },
    next: { type: 'string', default: '3', description: 'how many ps to restore with afterwards; 0: not' },
  },
  async run(ctx) {
    const [ps, workers, next] = ['ps', 'workers', 'next'].map((name) => Number(ctx.flags[name])) as [
      number,
      number,
      number,
    ];
    const lab = await ctx.lab({ hosts: Math.max(ps, next) + workers });
    const hostOf = (job: 'ps' | 'worker', index: number) => (job === 'worker' ? index : workers + index);
    const options = { program: `${EXAMPLE}/classic.ts`, workers, hostOf };
    const scenario = new Scenario(lab, { ...options, ps });
    await makeData(ctx, lab.hosts.slice(0, workers));
    const flags = (epochs: string) => [
      `--features=${ctx.flags.features}`,
      `--epochs=${epochs}`,
      '--save_model_secs=10',
      '--validate_steps=10',
    ];

    ctx.log(`${ps} ps, ${workers} workers`);
    const first = scenario.startAll(flags(String(ctx.flags.epochs)));
    if (!(await allEnd(ctx, first, 'all tasks end when the epochs are over', 3_600_000))) return;
    const chief = first[0] as ScenarioTask;
    ctx.check('it was saved while it trained', (chief.process.output.match(/^saved /gm) ?? []).length >= 2);
    const found = [
      ...chief.process.output.matchAll(/validation at .*?loss ([\d.]+), accuracy ([\d.]+), auc ([\d.]+)/g),
    ];
    const [, loss, , auc] = found.at(-1) ?? [];
    ctx.check(
      'it has learnt: loss below 0.69, AUC above 0.5',
      Number(loss) < 0.69 && Number(auc) > 0.5,
      `${found.length} validations, the last: loss ${loss}, AUC ${auc}`,
    );
    const made = first
      .slice(0, workers)
      .map(({ process }) => Number(/done: (\d+) steps/.exec(process.output)?.[1]));
    const step = await newest(lab.host(0));
    ctx.equal(
      'the last checkpoint counts every step of every worker',
      step,
      made.reduce((a, b) => a + b, 0),
    );
    const sums = await pythonReads(ctx, lab.hosts);

    if (next === 0) return;
    ctx.log(`again with ${next} ps, from the checkpoint of ${ps}`);
    const other = new Scenario(lab, { ...options, ps: next });
    const second = other.startAll(flags('1'));
    const restored = await says(ctx, second[0] as ScenarioTask, /restoring .*model\.ckpt-(\d+)/);
    ctx.equal('it goes on from the last checkpoint', Number(restored?.[1]), step);
    await allEnd(ctx, second, 'all end again', 3_600_000);
    const later = await newest(lab.host(0));
    ctx.check('and trains on', later > step, `step ${later}`);
    const more = await pythonReads(ctx, lab.hosts);
    ctx.check(
      'the weights go on from what they were',
      more !== undefined && sums !== undefined && more.used >= sums.used,
      `${sums?.used} rows in use, then ${more?.used}`,
    );
  },
};

async function makeData(ctx: Context, hosts: readonly LabHost[]): Promise<void> {
  const { features, records } = ctx.flags as Record<string, string>;
  for (const [i, host] of hosts.entries()) {
    const make = async (prefix: string, count: number, seed: number) => {
      const args = [
        '--out',
        'data',
        '--prefix',
        prefix,
        '--records',
        String(count),
        '--features',
        features!,
        '--seed',
        String(seed),
        '--files',
        '2',
      ];
      const { code, stderr } = await host.exec(
        process.execPath,
        ['--import', LOADER, join(ROOT, EXAMPLE, 'generate.ts'), ...args],
        { cwd: host.disk },
      );
      if (code !== 0) throw new Error(stderr);
    };
    await make('train', Number(records), i + 1);
    await make('valid', 5000, 100);
  }
  ctx.log(`${records} records on each of ${hosts.length} hosts`);
}

async function newest(host: LabHost): Promise<number> {
  const { modelCheckpointPath } = parseCheckpointState(
    (await host.readFile('supervisor/checkpoint')).toString(),
  );
  return Number(/-(\d+)$/.exec(modelCheckpointPath)?.[1]);
}

interface Seen {
  readonly shapes: Readonly<Record<string, readonly number[]>>;
  readonly sums: Readonly<Record<string, number>>;
  readonly used: number;
  readonly inputs: unknown;
}

/** Gathers the newest checkpoint; Python TensorFlow reads it, and the collections of its `.meta`. */
async function pythonReads(ctx: Context, hosts: readonly LabHost[]): Promise<Seen | undefined> {
  const directory = await mkdtemp(join(tmpdir(), 'shoal-001-'));
  try {
    const { path, sums } = await gather(hosts, directory, { values: false });
    const seen = await askPython<Seen>(PYTHON, { path });
    const inOrder = (record: object) => Object.entries(record).sort(([a], [b]) => (a < b ? -1 : 1));
    ctx.equal(
      'Python reads every tensor bit for bit, weights and both slots',
      inOrder(seen.sums),
      inOrder(sums),
    );
    const names = Object.keys(seen.shapes).sort();
    ctx.equal('the checkpoint has weights, bias, both FTRL slots of each, and the step', names, [
      'bias',
      'bias/Ftrl',
      'bias/Ftrl_1',
      'global_step',
      'weights',
      'weights/Ftrl',
      'weights/Ftrl_1',
    ]);
    ctx.check(
      'the .meta names the tensors for serving',
      JSON.stringify(seen.inputs).includes('examples'),
      JSON.stringify(seen.inputs),
    );
    return seen;
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}
