/**
 * The programs of docs/ports: the originals, run by Python TensorFlow, and their ports, each as a worker with a ps. Both
 * train to the end, and their checkpoints and exports have the same content. Values are compared for linear regression: the
 * other programs draw their batches at random, each language in its own order.
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { differences } from '../../codegen/output.js';
import { generatePorts } from '../../codegen/ports.js';
import { writeSparseExamples } from '../../examples/sparse-linear/sparse-examples.js';
import { choosePorts } from '../../src/app/job/launcher/ports.js';
import { DataType } from '../../src/base/proto/generated/graph_pb.js';
import {
  BundleReader,
  BundleShardWriter,
  DirectoryReader,
  dataFile,
  indexFile,
  readIndexFile,
  writeIndexFile,
} from '../../src/tensorflow/formats/index.js';
import { locateTensorFlow } from '../../src/tensorflow/native/library/locate.js';
import { shoal } from '../cli/shoal-process.js';
import { askPython } from '../python.js';
import { childEnvironment, ROOT } from '../setup/run-setup.js';
import { startProcess } from './child-process.js';

vi.setConfig({ testTimeout: 400_000 });

const LOADER = pathToFileURL(join(ROOT, 'node_modules/tsx/dist/loader.mjs')).href;
const scratch = mkdtempSync(join(tmpdir(), 'shoal-ports-'));
const data = join(scratch, 'data');

type Side = 'py' | 'ts';
type Example = 'linear-regression' | 'softmax-export' | 'sparse-linear';

const FLAGS: Readonly<Record<Example, readonly string[]>> = {
  'linear-regression': ['--last_step=300'],
  'softmax-export': ['--steps=200', '--checkpoint_dir=logs'],
  'sparse-linear': [
    ...['--features=1000', '--batch_size=100', '--epochs=1', '--validate_steps=10'],
    ...[`--train=${data}/train*`, `--validate=${data}/valid*`],
  ],
};
const EXAMPLES = Object.keys(FLAGS) as Example[];

const directoryOf = (side: Side, example: Example): string => join(scratch, side, example);
const programOf = (side: Side, example: Example): string =>
  join(ROOT, 'examples', example, `classic.${side}`);

const output: Record<Side, Partial<Record<Example, string>>> = { py: {}, ts: {} };

beforeAll(async () => {
  const options = { directory: data, features: 1000, idsPerRecord: 10 };
  await writeSparseExamples({ ...options, prefix: 'train', records: 2000, files: 2 });
  await writeSparseExamples({ ...options, prefix: 'valid', records: 500, files: 1, seed: 2 });
  for (const side of ['py', 'ts'] as const) await writeInitialValues(side);
  await Promise.all([runOriginals(), runPorts()]);
});
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

const lineLogs = (side: Side): string => join(directoryOf(side, 'linear-regression'), 'train_logs');

/** A checkpoint from which both programs start: the first value of W would be random. */
async function writeInitialValues(side: Side): Promise<void> {
  const directory = lineLogs(side);
  mkdirSync(directory, { recursive: true });
  const prefix = join(directory, 'initial');
  const chunks: Uint8Array[] = [];
  const writer = new BundleShardWriter({ write: (chunk) => void chunks.push(chunk.slice()) });
  const initial = { W: [-0.5], 'W/Adagrad': [0.1], b: [0], 'b/Adagrad': [0.1] };
  for (const [name, values] of Object.entries(initial)) {
    const bytes = new Uint8Array(Float32Array.from(values).buffer);
    await writer.add(name, { dtype: DataType.DT_FLOAT, shape: [1] }, bytes);
  }
  await writer.add('global_step', { dtype: DataType.DT_INT64, shape: [] }, new Uint8Array(8));
  const { index } = await writer.finish();
  writeFileSync(dataFile(prefix, 0, 1), Buffer.concat(chunks));
  writeFileSync(indexFile(prefix), writeIndexFile(index));
  writeFileSync(join(directory, 'checkpoint'), 'model_checkpoint_path: "initial"\n');
}

const addresses = async (): Promise<{ ps: string; worker: string }> => {
  const [ps, worker] = (await choosePorts('127.0.0.1', 2)).map((port) => `127.0.0.1:${port}`);
  return { ps: ps as string, worker: worker as string };
};

async function runOriginals(): Promise<void> {
  const requests = await Promise.all(
    EXAMPLES.map(async (example) => ({
      program: programOf('py', example),
      directory: directoryOf('py', example),
      flags: FLAGS[example],
      ...(await addresses()),
    })),
  );
  const printed = await askPython<string[]>(new URL('./originals.py', import.meta.url), requests);
  for (const [i, example] of EXAMPLES.entries()) output.py[example] = printed[i];
}

async function runPorts(): Promise<void> {
  for (const example of EXAMPLES) output.ts[example] = await runPort(example);
}

async function runPort(example: Example): Promise<string> {
  const { ps, worker } = await addresses();
  const cwd = directoryOf('ts', example);
  mkdirSync(cwd, { recursive: true });
  const env = childEnvironment({
    SHOAL_TF_DIR: locateTensorFlow().dir,
    TSX_TSCONFIG_PATH: join(ROOT, 'tsconfig.json'),
    UV_THREADPOOL_SIZE: '64',
  });
  const [server, trainer] = ['ps', 'worker'].map((job) => {
    const flags = [`--ps_hosts=${ps}`, `--worker_hosts=${worker}`, `--job_name=${job}`, '--task_index=0'];
    const args = ['--import', LOADER, programOf('ts', example), ...flags, ...FLAGS[example]];
    return startProcess(process.execPath, args, { cwd, env });
  });
  try {
    for (const task of [trainer!, server!]) expect((await task.ended).code, task.output()).toBe(0);
    return trainer!.output();
  } finally {
    for (const task of [trainer!, server!]) task.child.kill('SIGKILL');
  }
}

const both = async <T>(get: (side: Side) => T | Promise<T>): Promise<[T, T]> => [
  await get('py'),
  await get('ts'),
];

/** The name of the newest checkpoint of a directory. */
function newestIn(directory: string): string {
  const state = readFileSync(join(directory, 'checkpoint'), 'utf8');
  return basename(/^model_checkpoint_path: "(.*)"$/m.exec(state)?.[1] as string);
}

/** The name, element type and shape of every tensor in the newest checkpoint of a directory. */
function savedTensors(directory: string): string[] {
  const file = join(directory, `${newestIn(directory)}.index`);
  const { tensors } = readIndexFile(readFileSync(file), file);
  return [...tensors].map(([name, { dtype, shape }]) => `${name} ${DataType[dtype]} [${shape}]`).sort();
}

interface Signature {
  readonly name: string;
  readonly methodName: string;
  readonly inputs: Readonly<Record<string, { readonly dtype: string }>>;
  readonly outputs: Readonly<Record<string, { readonly dtype: string }>>;
}

/** What a client of a signature sees: not the names of tensors in the graph. */
function namesAndTypes({ name, methodName, inputs, outputs }: Signature) {
  const types = (tensors: Signature['inputs']) =>
    Object.fromEntries(Object.entries(tensors).map(([key, { dtype }]) => [key, dtype]));
  return { name, methodName, inputs: types(inputs), outputs: types(outputs) };
}

test('the pages are those of the programs', () => {
  // `npm run codegen -- ports` updates them.
  expect(differences(ROOT, generatePorts())).toEqual([]);
});

test('linear regression: both train, and save the same variables with the same values', async () => {
  for (const text of await both((side) => output[side]['linear-regression']))
    expect(text).toMatch(/^step \d+ loss \S+ W \S+ b \S+/m);
  const [theirs, ours] = await both((side) => savedTensors(lineLogs(side)));
  expect(ours).toEqual(theirs);
  expect(ours).toContain('W/Adagrad DT_FLOAT [1]');
  const [original, port] = await both(async (side) => {
    const directory = lineLogs(side);
    const files = new DirectoryReader(directory);
    const reader = await BundleReader.open(files, newestIn(directory));
    const names = ['W', 'W/Adagrad', 'b', 'b/Adagrad'];
    const bytes = await Promise.all(names.map((name) => reader.read(name)));
    await files.close();
    return bytes.map((value) => Buffer.from(value).readFloatLE());
  });
  // 300 steps from the same values.
  for (const [i, value] of port.entries()) expect(value).toBeCloseTo(original[i] as number, 5);
  expect(port[0]).not.toBeCloseTo(-0.5, 2);
});

test('softmax: both classify, save the same variables and export the same signatures', async () => {
  for (const text of await both((side) => output[side]['softmax-export']))
    expect(Number(/accuracy (\S+) on/.exec(text ?? '')?.[1])).toBeGreaterThan(0.8);
  const [theirs, ours] = await both((side) =>
    savedTensors(join(directoryOf(side, 'softmax-export'), 'logs')),
  );
  expect(ours).toEqual(theirs);
  const [original, port] = await both(async (side) => {
    const cwd = directoryOf(side, 'softmax-export');
    const { code, stdout, stderr } = await shoal(['saved-model', 'show', 'export/1', '--json'], { cwd });
    expect(code, stderr).toBe(0);
    return JSON.parse(stdout).graphs[0].signatures.map(namesAndTypes);
  });
  expect(port).toEqual(original);
});

test('sparse FTRL: both read all records, validate, and save the same variables', async () => {
  for (const text of await both((side) => output[side]['sparse-linear'])) {
    expect(text).toMatch(/^validation at step \d+: loss 0\.\d+, accuracy 0\.\d+, auc 0\.\d+$/m);
    // There are 20 batches. Each summary that the supervisor writes meanwhile takes one.
    expect(text).toMatch(/^done: (1[5-9]|20) steps were made here$/m);
  }
  const [theirs, ours] = await both((side) =>
    savedTensors(join(directoryOf(side, 'sparse-linear'), 'supervisor')),
  );
  expect(ours).toEqual(theirs);
  expect(ours).toContain('weights/Ftrl DT_FLOAT [1000,2]');
});
