/** Scenario 002: one placement of it, and what Python returns for the exports. */
import { randomBytes } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { batches, type DigitSet, loadDigits } from '../../examples/digits/data.js';
import { askPython } from '../../test/python.js';
import { diskOf } from '../cluster/gather.js';
import { ask, publishFrom, startServing } from '../cluster/serving.js';
import type { Context } from '../experiment.js';
import type { Lab, LabHost } from '../hosts/hosts.js';
import { Leftovers } from '../hosts/leftovers.js';
import { allEnd, Scenario, type ScenarioTask } from './scenario-run.js';

const CLASSIC = 'examples/softmax-export/classic.ts';
const TRAIN = new URL('../programs/train-softmax.py', import.meta.url);
const SERVE = new URL('../programs/serve-softmax.py', import.meta.url);
const EXPORTS = 'export';
const EXPECTED = 'expected.json';
/** As the example has them. */
const [BATCH, RATE] = [100, 0.01];
/** By how much the accuracy may differ from what Python reaches. */
const ACCURACY = 0.02;
const TOLERANCE = 1e-6;

export interface Placement {
  /** The host of each ps, and of each worker: 0 is host A of the scenario. */
  readonly ps: readonly number[];
  readonly workers: readonly number[];
  /** The workers that export, each in a separate run. */
  readonly exporters: readonly number[];
}

export const PLACEMENTS = {
  one: { ps: [0], workers: [0, 0], exporters: [0] },
  two: { ps: [0], workers: [1, 2], exporters: [0, 1] },
  three: { ps: [0], workers: [0, 1], exporters: [0] },
  four: { ps: [0], workers: [1], exporters: [0] },
  'two-ps': { ps: [0, 1], workers: [1, 2], exporters: [0] },
} as const satisfies Record<string, Placement>;

export type PlacementName = keyof typeof PLACEMENTS;

/** The digits as files, and the accuracies that Python reaches with the batches of the workers. */
export interface Reference {
  readonly directory: string;
  /** After the last step of one worker. */
  readonly one: readonly number[];
  /** After each of the last steps of two workers. */
  readonly two: readonly number[];
}

export async function exportPlacement(
  ctx: Context,
  name: PlacementName,
  reference: Reference,
): Promise<void> {
  const { ps, workers, exporters }: Placement = PLACEMENTS[name];
  const lab = await ctx.lab({ hosts: 5 });
  const scenario = new Scenario(lab, {
    program: CLASSIC,
    ps: ps.length,
    workers: workers.length,
    hostOf: (job, index) => (job === 'ps' ? ps : workers)[index] as number,
    logs: ctx.flags.logs as string | undefined,
  });
  const leftovers = await Leftovers.before(lab);
  for (const [i, exporter] of exporters.entries()) {
    const hosts = `ps on ${ps.map(letter)}, workers on ${workers.map(letter)}`;
    ctx.log(`placement ${name}: ${hosts}; worker ${exporter} exports`);
    const version = String(i + 1);
    const tasks = scenario.startAll([
      `--steps=${ctx.flags.steps}`,
      `--exporter=${exporter}`,
      `--version=${version}`,
      `--expected_file=${EXPECTED}`,
    ]);
    if (!(await allEnd(ctx, tasks, 'all tasks end by themselves'))) return;
    const host = scenario.hostOf('worker', exporter);
    await onExporterOnly(ctx, lab, host, version);
    await leftovers.check(ctx, scenario, { keeps: 0, belongs: ['.shoal', EXPORTS, EXPECTED] });
    await noBlobsLeft(ctx, lab);
    const disk = diskOf(lab, host);
    const trained = accuracyOf(tasks[exporter] as ScenarioTask);
    const served = await pythonServes(ctx, reference, join(disk, EXPORTS, version), join(disk, EXPECTED));
    ctx.measure('accuracy on held-out digits', served, '');
    // The last step of the other worker may lie between the two.
    ctx.check(
      'the export has the accuracy of the session',
      Math.abs(trained - served) <= 0.005,
      `session ${trained}, export ${served}`,
    );
    asPythonReaches(ctx, served, workers.length === 1 ? reference.one : reference.two);
    if (i === exporters.length - 1) await servedElsewhere(ctx, { from: host, to: lab.host(4), version });
  }
  await lab.dispose();
}

/**
 * With one worker Python trains with the same batches in the same order. Two workers do not wait for each other: gradients of
 * values that are one step old make the accuracy vary from step to step, in Python as well.
 */
function asPythonReaches(ctx: Context, accuracy: number, python: readonly number[]): void {
  const [least, most] = [Math.min(...python), Math.max(...python)];
  ctx.check(
    `it is what softmax regression reaches in Python TensorFlow, within ${ACCURACY}`,
    accuracy >= least - ACCURACY && accuracy <= most + ACCURACY,
    `export ${accuracy}, Python ${least === most ? least : `${least} to ${most}`}`,
  );
}

const letter = (host: number): string => 'ABC'[host] as string;

const accuracyOf = ({ process }: ScenarioTask): number =>
  Number(/^accuracy ([\d.]+) on/m.exec(process.output)?.[1]);

/** Writes the digits to a directory, and has Python train with them. */
export async function pythonReference(ctx: Context, directory: string): Promise<Reference> {
  const { train, heldOut } = loadDigits();
  const put = (name: string, array: Float32Array | Int32Array) =>
    writeFile(join(directory, name), Buffer.from(array.buffer, array.byteOffset, array.byteLength));
  for (const [name, set] of Object.entries({ train, heldOut })) {
    await put(`${name}.images`, set.images);
    await put(`${name}.labels`, set.labels);
  }
  const steps = Number(ctx.flags.steps);
  for (const worker of [0, 1]) await put(`batches-${worker}`, batchIndices(train, steps, worker));
  const request = { directory, batch: BATCH, rate: RATE };
  const { one, two } = await askPython<Omit<Reference, 'directory'>>(TRAIN, request);
  ctx.measure('accuracy that Python reaches with one worker', one.at(-1) as number, '');
  const mean = two.reduce((sum, accuracy) => sum + accuracy, 0) / two.length;
  ctx.measure(`its mean over the last ${two.length} steps of two workers`, mean, '');
  return { directory, one, two };
}

/** Which images each batch of a worker has: the batches of a set whose labels are the places of its images. */
function batchIndices(train: DigitSet, steps: number, worker: number): Int32Array {
  const places = Int32Array.from({ length: train.count }, (_, i) => i);
  const all = new Int32Array(steps * BATCH);
  const source = batches({ ...train, labels: places }, BATCH, 1 + worker);
  for (let step = 0; step < steps; step++) all.set(source.next().value.labels, step * BATCH);
  return all;
}

/** The version is complete on the exporter's disk, and no other host has any of it. */
async function onExporterOnly(ctx: Context, lab: Lab, exporter: LabHost, version: string): Promise<void> {
  const holders: string[] = [];
  for (const host of lab.hosts) {
    const names = await host.listFiles(EXPORTS).catch(() => [] as string[]);
    if (names.includes(version)) holders.push(host.name);
  }
  ctx.equal(`version ${version} is on the disk of the exporter alone`, holders, [exporter.name]);
  const files = await linesOf(exporter, 'find', EXPORTS, '-path', `*/${version}/*`, '-type', 'f');
  const found = files.map((path) => path.slice(`${EXPORTS}/${version}/`.length)).sort();
  const shards = found.filter((file) => file.includes('.data-'));
  ctx.check(
    'it has the model, the index and the data of the variables, and nothing else',
    shards.length > 0 &&
      found.length === shards.length + 2 &&
      found.includes('saved_model.pb') &&
      found.includes('variables/variables.index'),
    found.join(' '),
  );
}

async function noBlobsLeft(ctx: Context, lab: Lab): Promise<void> {
  const left: string[] = [];
  for (const host of lab.hosts) {
    const blobs = await linesOf(host, 'find', '.', '-path', '*/blobs/+exports/*', '-type', 'f');
    left.push(...blobs.map((path) => `${host.name}: ${path}`));
  }
  ctx.check('no file of an export is left among the blobs of any task', left.length === 0, left.join('; '));
}

/** The lines that a command prints on a host. */
async function linesOf(host: LabHost, command: string, ...args: string[]): Promise<string[]> {
  const { stdout } = await host.exec(command, args, { cwd: host.disk });
  return stdout.split('\n').filter((line) => line !== '');
}

interface Answers {
  readonly scores: readonly (readonly number[])[];
  readonly classes: readonly (readonly string[])[];
  readonly topScores: readonly (readonly number[])[];
}

const WAYS = ['tf.saved_model.load', 'tf.compat.v1.saved_model.load', 'saved_model_cli run'] as const;

type Served = Readonly<Record<(typeof WAYS)[number], Answers>> & {
  readonly 'tf.saved_model.load': { readonly accuracy: number };
  readonly show: { readonly code: number; readonly out: string; readonly err: string };
};

/** Compares what Python returns with what the session of the exporter returned. Gives the accuracy of the export. */
async function pythonServes(
  ctx: Context,
  { directory }: Reference,
  path: string,
  expected: string,
): Promise<number> {
  const answers = JSON.parse(await readFile(expected, 'utf8')) as readonly Answers[];
  const count = answers[0]?.scores.length ?? 0;
  const served = await askPython<Served>(SERVE, { directory, export: path, count });
  for (const way of WAYS) {
    const difference = Math.min(...answers.map((answer) => furthest(served[way], answer)));
    ctx.check(
      `${way}: the scores of ${count} digits are the session's, to ${TOLERANCE}`,
      difference <= TOLERANCE,
      `at most ${difference.toExponential(1)} apart`,
    );
    ctx.check(
      `${way}: so are the class strings`,
      answers.some(({ classes }) => JSON.stringify(classes) === JSON.stringify(served[way].classes)),
      served[way].classes.map(([first]) => first).join(' '),
    );
  }
  const { code, out, err } = served.show;
  ctx.check(
    'saved_model_cli show lists both signatures',
    code === 0 && out.includes("signature_def['predict_images']") && out.includes("['serving_default']"),
    code === 0 ? '' : err,
  );
  return served['tf.saved_model.load'].accuracy;
}

/** The export is published from the disk of its exporter, and answers requests on a host that has nothing else. */
async function servedElsewhere(
  ctx: Context,
  { from, to, version }: { readonly from: LabHost; readonly to: LabHost; readonly version: string },
): Promise<void> {
  const token = randomBytes(16).toString('hex');
  const serving = await startServing(to, 'softmax', token);
  await publishFrom(from, EXPORTS, [to], token);
  const answers = JSON.parse((await from.readFile(EXPECTED)).toString('utf8')) as readonly Answers[];
  const count = answers[0]?.scores.length ?? 0;
  const { images } = loadDigits().heldOut;
  const size = images.length / loadDigits().heldOut.count;
  const instances = Array.from({ length: count }, (_, i) => [...images.subarray(i * size, (i + 1) * size)]);
  const body = { signature_name: 'predict_images', instances };
  const reply = await ask(from, to, `/v1/models/softmax/versions/${version}:predict`, body);
  const { predictions } = reply as { readonly predictions: Answers['scores'] };
  const difference = Math.min(...answers.map(({ scores }) => distance(scores.flat(), predictions.flat())));
  ctx.check(
    `shoal serve on a fifth host, after a publish: the scores of ${count} digits are the session's, to ${TOLERANCE}`,
    difference <= TOLERANCE,
    `at most ${difference.toExponential(1)} apart`,
  );
  serving.kill('SIGTERM');
  const { code } = await serving.ended();
  ctx.equal('it ends with exit code 0', code, 0);
}

/** The largest difference between two sets of scores. */
function furthest(a: Answers, b: Answers): number {
  const flat = ({ scores, topScores }: Answers) => [...scores.flat(), ...topScores.flat()];
  return distance(flat(a), flat(b));
}

function distance(left: readonly number[], right: readonly number[]): number {
  if (left.length !== right.length) return Number.POSITIVE_INFINITY;
  return Math.max(...left.map((score, i) => Math.abs(score - (right[i] as number))));
}
