/** Versions come and go while requests run: no request fails, damaged and unfinished versions change nothing. */
import { cp, mkdir, mkdtemp, rename, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { create, toBinary } from '@bufbuild/protobuf';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { PredictionLogSchema } from '../../../base/proto/generated/serving_pb.js';
import { TFRecordWriter } from '../../../tensorflow/formats/tfrecord/writer.js';
import { liveHandles } from '../../../tensorflow/native/handle.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import type { ModelServer } from '../core/model-server.js';
import { openModelServer } from '../core/open-model-server.js';
import { writeHalfPlus } from '../testing/models.js';

let root: string;
/** Versions 1 to 3, of which each adds its number. */
let made: string;
let server: ModelServer | undefined;
let lines: string[] = [];

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'shoal-swap-'));
  made = join(root, 'made');
  for (const version of [1, 2, 3]) await writeHalfPlus(made, version, version);
});
afterEach(async () => {
  await server?.close();
  server = undefined;
});
afterAll(() => rm(root, { recursive: true, force: true }));

let count = 0;
async function newBase(...versions: number[]): Promise<string> {
  const base = join(root, `base-${count++}`);
  await mkdir(base);
  for (const version of versions) await publish(base, version);
  return base;
}

const publish = async (base: string, version: number, from = version): Promise<void> => {
  await cp(join(made, String(from)), join(base, `.copy-${version}`), { recursive: true });
  await rename(join(base, `.copy-${version}`), join(base, String(version)));
};

async function open(
  base: string,
  more: { readonly pollMs?: number; readonly count?: number } = {},
): Promise<ModelServer> {
  lines = [];
  const { pollMs = 0, count: versions = 1 } = more;
  server = await openModelServer({
    models: [{ name: 'half', basePath: base, policy: { kind: 'latest', count: versions } }],
    log: (line, level = 'info') => lines.push(`${level}: ${line}`),
    pollMs,
    drainMs: 5000,
  });
  return server;
}

/** Polls until the state is reached; a version that is new needs two looks. */
async function until(isTrue: () => boolean, what: string): Promise<void> {
  const end = performance.now() + 20_000;
  while (!isTrue()) {
    if (performance.now() > end) throw new Error(`${what} was not reached: ${JSON.stringify(states())}`);
    await server?.models.poll();
    await new Promise((tick) => setTimeout(tick, 20));
  }
}

const states = () =>
  Object.fromEntries((server?.status({ name: 'half' }) ?? []).map(({ version, state }) => [version, state]));

const ask = async (version?: number): Promise<number> => {
  const { outputs } = await server!.predict({
    spec: { name: 'half', version },
    inputs: { x: Tensor.of([[2]]) },
  });
  return outputs.y!.data[0] as number;
};

test('a new version takes over under load: no request fails, and the old one is freed', async () => {
  const base = await newBase(1);
  await open(base);
  const answers = new Set<number>();
  const running = { isOn: true };
  const clients = Array.from({ length: 8 }, async () => {
    while (running.isOn) answers.add(await ask());
  });
  for (const version of [2, 3, 4, 5]) {
    await publish(base, version, 1 + (version % 3));
    await until(
      () => states()[version] === 'AVAILABLE' && states()[version - 1] === 'END',
      `version ${version}`,
    );
  }
  running.isOn = false;
  await Promise.all(clients);
  expect(answers).toEqual(new Set([2, 3, 4]));
  expect(liveHandles().session).toBe(1);
});

test('memory is flat after the third swap', async () => {
  const base = await newBase(1);
  await open(base);
  const resident: number[] = [];
  const handles: string[] = [];
  for (let version = 2; version < 14; version++) {
    await publish(base, version, 1);
    await until(
      () => states()[version] === 'AVAILABLE' && states()[version - 1] === 'END',
      `version ${version}`,
    );
    for (let i = 0; i < 20; i++) await ask();
    await rm(join(base, String(version - 1)), { recursive: true });
    global.gc?.();
    resident.push(process.memoryUsage.rss());
    handles.push(JSON.stringify(liveHandles()));
  }
  expect(new Set(handles.slice(3)).size).toBe(1);
  expect(resident.at(-1)! - resident[2]!).toBeLessThan(24 << 20);
});

test('a directory that is being copied is not loaded, whichever file is missing or short', async () => {
  const base = await newBase(1);
  await open(base);
  const target = join(base, '2');
  await mkdir(join(target, 'variables'), { recursive: true });
  const files = ['saved_model.pb', 'variables/variables.index', 'variables/variables.data-00000-of-00001'];
  for (const file of files) {
    const from = join(made, '2', file);
    await cp(from, join(target, file));
    await truncate(join(target, file), (await stat(from)).size / 2);
    for (let look = 0; look < 3; look++) await server!.models.poll();
    expect(states()).toEqual({ 1: 'AVAILABLE', 2: 'START' });
    await cp(from, join(target, file));
    if (file !== files.at(-1)) expect(await ask()).toBe(2);
  }
  // Complete at the first look, but just written: it is loaded when a second look finds the same.
  await server!.models.poll();
  expect(states()).toEqual({ 1: 'AVAILABLE', 2: 'START' });
  await until(() => states()[2] === 'AVAILABLE', 'version 2');
  expect(await ask()).toBe(3);
  expect(lines.filter((line) => line.startsWith('error'))).toEqual([]);
});

test('a version that fails to load leaves the old one serving, and is tried again when it changes', async () => {
  const base = await newBase(1);
  await open(base);
  await cp(join(made, '2'), join(base, '2'), { recursive: true });
  // Of the right size, but not the bytes that the index has checksums of.
  const data = join(base, '2/variables/variables.data-00000-of-00001');
  await writeFile(data, Buffer.alloc(8, 7));
  await until(() => states()[2] === 'END', 'the failure');
  const [failed] = server!.status({ name: 'half', version: 2 });
  expect(failed).toMatchObject({ state: 'END', code: 'DATA_LOSS' });
  expect(await ask()).toBe(2);
  expect(lines.filter((line) => line.startsWith('error'))).toEqual([
    expect.stringMatching(
      /half version 2 cannot be loaded \(still serving: 1\): .*It is tried again when its files change/s,
    ),
  ]);
  expect(server!.metrics.text()).toMatch(/load_attempt_count\{model_path=".*2",status="fail"\} 1/);
  await server!.models.poll();
  expect(lines.filter((line) => line.startsWith('error'))).toHaveLength(1);
  await cp(join(made, '2/variables/variables.data-00000-of-00001'), data);
  await until(() => states()[2] === 'AVAILABLE', 'version 2 after its repair');
  expect(await ask()).toBe(3);
});

test('at the start, the newest version that can be loaded serves', async () => {
  const base = await newBase(1, 2);
  await truncate(join(base, '2/saved_model.pb'), 100);
  await open(base);
  expect(states()).toEqual({ 1: 'AVAILABLE', 2: 'START' });
  expect(server!.models.isReady).toBe(true);
});

test('removing the newest version brings the former one back, removing all changes nothing', async () => {
  const base = await newBase(1, 2);
  await open(base);
  expect(states()).toEqual({ 2: 'AVAILABLE' });
  await rm(join(base, '2'), { recursive: true });
  await until(() => states()[1] === 'AVAILABLE', 'version 1');
  expect(await ask()).toBe(2);
  // Without any version on the disk the loaded one stays.
  await rm(join(base, '1'), { recursive: true });
  for (let look = 0; look < 3; look++) await server!.models.poll();
  expect(await ask()).toBe(2);
});

test('several versions serve at a time', async () => {
  await open(await newBase(1, 2, 3), { count: 2 });
  expect(states()).toEqual({ 2: 'AVAILABLE', 3: 'AVAILABLE' });
  expect([await ask(), await ask(2)]).toEqual([4, 3]);
  await expect(ask(1)).rejects.toMatchObject({ status: 'NOT_FOUND' });
});

test('a reload adds and removes models, and refuses labels of versions that do not serve', async () => {
  const base = await newBase(1, 2);
  await open(base);
  const model = { name: 'other', basePath: base } as const;
  await server!.reloadConfig([{ ...model, policy: { kind: 'specific', versions: [1] }, labels: { old: 1 } }]);
  expect(() => server!.models.find({ name: 'half' })).toThrow('Servable not found for request: Latest(half)');
  expect(server!.models.find({ name: 'other', label: 'old' }).version).toBe(1);
  await expect(server!.reloadConfig([{ ...model, labels: { old: 2, new: 7 } }])).rejects.toMatchObject({
    status: 'FAILED_PRECONDITION',
    message: expect.stringContaining('Request to assign label to version 7 of model other'),
  });
  await expect(server!.reloadConfig([model, model])).rejects.toThrow(
    'Illegal to list model other multiple times',
  );
});

test('labels are moved together, when their versions serve', async () => {
  const base = await newBase(1, 2);
  const model = { name: 'half', basePath: base } as const;
  const policy = (...versions: number[]) => ({ kind: 'specific', versions }) as const;
  const versionOf = (label: string) => server!.models.find({ name: 'half', label }).version;
  await open(base);
  await server!.reloadConfig([{ ...model, policy: policy(1), labels: { stable: 1 } }]);
  const moved = server!.reloadConfig([{ ...model, policy: policy(1, 2), labels: { stable: 2, before: 1 } }]);
  // While version 2 is loaded, the label names version 1.
  for (let isMoving = true; isMoving; ) {
    expect(server!.status({ name: 'half', version: versionOf('stable') })[0]?.state).toBe('AVAILABLE');
    isMoving = await Promise.race([
      moved.then(() => false),
      new Promise<true>((tick) => setImmediate(tick, true)),
    ]);
  }
  expect([versionOf('stable'), versionOf('before')]).toEqual([2, 1]);
  await expect(
    server!.reloadConfig([{ ...model, policy: policy(1, 2), labels: { stable: 1, other: 3 } }]),
  ).rejects.toMatchObject({ status: 'FAILED_PRECONDITION' });
  expect(versionOf('stable')).toBe(2);
  expect(() => versionOf('other')).toThrow('Unrecognized servable version label: other');
});

test('a reload reports new models that cannot be served', async () => {
  const base = await newBase(1);
  await open(base);
  const half = { name: 'half', basePath: base };
  await expect(
    server!.reloadConfig([half, { name: 'none', basePath: join(root, 'none') }]),
  ).rejects.toMatchObject({
    status: 'UNKNOWN',
    message: expect.stringMatching(
      /^1 model\(s\) did not become available: \{\{name: none\} \(no versions in .*none\)\}/,
    ),
  });
  expect(await ask()).toBe(2);
  await mkdir(join(root, 'none'));
  await publish(join(root, 'none'), 2);
  await until(() => server!.models.isReady, 'the model that was missing');
});

test('warm-up requests are run before a version serves; one that fails keeps the version from serving', async () => {
  const base = await newBase(1);
  await open(base);
  await writeWarmUp('2', [2, 3]);
  await publish(base, 2);
  await until(() => states()[2] === 'AVAILABLE', 'version 2');
  expect(server!.metrics.text()).toMatch(/model_warmup_latency_count\{model_path=".*2",status="success"\} 1/);
  await writeWarmUp('3', [1], 'unknown');
  await publish(base, 3);
  await until(() => states()[3] === 'END', 'the failed warm-up');
  expect(server!.status({ name: 'half', version: 3 })[0]).toMatchObject({
    code: 'INVALID_ARGUMENT',
    message: expect.stringMatching(/The warm-up request 0 of .*tf_serving_warmup_requests failed: .*unknown/),
  });
  expect(await ask()).toBe(3);
  expect(liveHandles().session).toBe(1);
});

async function writeWarmUp(version: string, values: readonly number[], input = 'x'): Promise<void> {
  const directory = join(made, version, 'assets.extra');
  await mkdir(directory, { recursive: true });
  const writer = new TFRecordWriter(join(directory, 'tf_serving_warmup_requests'));
  for (const value of values) {
    const x = { dtype: 1, tensorShape: { dim: [{ size: 1n }, { size: 1n }] }, floatVal: [value] };
    const request = { modelSpec: { name: 'any' }, inputs: { [input]: x } };
    const log = create(PredictionLogSchema, { logType: { case: 'predictLog', value: { request } } });
    await writer.write(toBinary(PredictionLogSchema, log));
  }
  await writer.close();
}

test('a reload with another base path serves its files, under the same number too, and the old ones until then', async () => {
  const base = await newBase(1);
  const { models } = await open(base);
  await until(() => states()[1] === 'AVAILABLE', 'version 1');
  expect(await ask()).toBe(2);
  const empty = await newBase();
  await models.reload([{ name: 'half', basePath: empty }]);
  expect([await ask(), await ask(1), models.isReady]).toEqual([2, 2, true]);
  const other = await newBase();
  await publish(other, 1, 2);
  await models.reload([{ name: 'half', basePath: other }]);
  expect([await ask(), await ask(1)]).toEqual([3, 3]);
  expect(states()).toEqual({ 1: 'AVAILABLE' });
});
