import { execFileSync } from 'node:child_process';
import { cp, mkdir, mkdtemp, readdir, readFile, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { askPython } from '../../../../test/python.js';
import * as tf from '../../../app/tf/index.js';
import { decodeManifest, encodeManifest } from '../../../distributed/checkpoint/format/manifest.js';
import { fileBlob } from '../../../distributed/checkpoint/format/names.js';
import { Graph } from '../../../tensorflow/graph/graph.js';
import { Session } from '../../../tensorflow/session/session.js';
import { getOrCreateGlobalStep } from '../../../tensorflow/variables/global-step.js';
import { globalVariablesInitializer } from '../../../tensorflow/variables/initialize.js';
import { fixedSizePartitioner } from '../../../tensorflow/variables/partitioned.js';
import { globalVariables } from '../../../tensorflow/variables/variable-scope.js';
import { latestCheckpoint } from './latest-checkpoint.js';
import { Saver } from './saver.js';

const PYTHON = new URL('../testing/saver.py', import.meta.url);

let dir = '';
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'shoal-saver-'));
});
afterEach(() => rm(dir, { recursive: true, force: true }));

/** Variables of several types, a partitioned table, optimizer slots and a global step. */
function model(parts: number) {
  const graph = new Graph();
  return graph.asDefault(() => {
    const step = getOrCreateGlobalStep(graph);
    const w = tf.variable('w', {
      shape: [3, 4],
      initializer: tf.randomUniformInitializer(-1, 1, { seed: 1 }),
    });
    const table = tf.partitionedVariable('table', {
      shape: [10, 2],
      initializer: tf.randomUniformInitializer(-1, 1, { seed: 2 }),
      partitioner: fixedSizePartitioner(parts),
    });
    tf.newVariable(tf.constant(['one', '', 'drei']), { name: 'words', trainable: false });
    tf.newVariable(tf.constant([true, false]), { name: 'flags', trainable: false });
    const loss = tf.sum(tf.square(w)).add(tf.sum(tf.square(table.toOutput())));
    const trainOp = tf.train.adagrad(0.1).minimize(loss, { globalStep: step });
    return { graph, step, w, table, trainOp, init: globalVariablesInitializer(graph) };
  });
}

async function values(session: Session, graph: Graph): Promise<Record<string, unknown>> {
  const entries = globalVariables(graph).map(async (variable) => [
    variable.name,
    (await session.run(variable.toOutput())).toArray(),
  ]);
  return Object.fromEntries(await Promise.all(entries)) as Record<string, unknown>;
}

describe('a saver in one process', () => {
  test('reports a damaged manifest as an error, not as no checkpoint', async () => {
    const one = model(1);
    await using session = await Session.create({ graph: one.graph });
    await session.run(one.init);
    await new Saver().save(session, join(dir, 'model.ckpt'));
    const [manifest] = await readdir(join(dir, 'manifests'));
    await writeFile(join(dir, 'manifests', manifest!), 'what a torn write leaves');
    const saver = new Saver();
    await expect(saver.latest(session, dir)).rejects.toMatchObject({ code: 'SHOAL_CORRUPT' });
    await expect(saver.restoreNewest(session, dir)).rejects.toMatchObject({
      code: 'SHOAL_CORRUPT',
      message: expect.stringMatching(/There are 1 checkpoints, and none can be restored/) as string,
    });
  });

  test('does not use an older checkpoint if the shards of the newest are on the tasks of a cluster', async () => {
    const one = model(1);
    await using session = await Session.create({ graph: one.graph });
    await session.run(one.init);
    const saver = new Saver();
    await saver.save(session, join(dir, 'model.ckpt'), { globalStep: 1 });
    await saver.save(session, join(dir, 'model.ckpt'), { globalStep: 2 });
    const manifests = await readdir(join(dir, 'manifests'));
    for (const name of manifests) {
      const path = join(dir, 'manifests', name);
      const manifest = decodeManifest(await readFile(path), name);
      if (manifest.step !== 2) continue;
      const chief = { task: '/job:worker/task:0', incarnation: 1 };
      const files = manifest.files.map((file) => ({ ...file, places: ['ps/0'] }));
      await writeFile(path, encodeManifest({ ...manifest, chief, files }));
      await rm(
        join(dir, fileBlob('', manifest, manifest.files.find(({ file }) => file.includes('data'))!.file)),
      );
    }
    await expect(new Saver().restoreNewest(session, dir)).rejects.toThrow(
      /model.ckpt-2 was saved by a cluster, .* they are on ps\/0/,
    );
  });

  test('saves what Python TensorFlow reads bit for bit, and restores it with another partitioning', async () => {
    const one = model(3);
    await using session = await Session.create({ graph: one.graph });
    await session.run(one.init);
    for (let i = 0; i < 3; i++) await session.run(one.trainOp);
    const saver = new Saver();
    const path = await saver.save(session, join(dir, 'model.ckpt'));
    expect(path).toBe(join(dir, 'model.ckpt-3'));
    expect(await latestCheckpoint(dir)).toBe(path);
    const before = await values(session, one.graph);
    const table = (await session.run(one.table.toOutput())).toArray();
    const seen = await askPython<Record<string, unknown>>(PYTHON, { read: path });
    expect(seen).toMatchObject({
      global_step: 3,
      w: before.w,
      table,
      words: ['one', '', 'drei'],
      flags: [true, false],
    });
    expect(seen['w/Adagrad']).toEqual(before['w/Adagrad']);

    const other = model(2);
    await using second = await Session.create({ graph: other.graph });
    const report = await saver.restore(second, path);
    expect(report).toMatchObject({ missing: [], unused: [] });
    expect((await second.run(other.table.toOutput())).toArray()).toEqual(table);
    const slots = async (s: Session, m: typeof one) =>
      (
        await Promise.all(
          globalVariables(m.graph)
            .filter(({ name }) => name.startsWith('table/') && name.endsWith('/Adagrad'))
            .map(async (slot) => (await s.run(slot.toOutput())).toArray() as unknown[]),
        )
      ).flat();
    expect(await slots(second, other)).toEqual(await slots(session, one));
  });

  test('restores what Python TensorFlow wrote: plain, sharded, partitioned, with slots', async () => {
    const written = await askPython<{ paths: string[]; values: Record<string, unknown> }>(PYTHON, {
      write: dir,
    });
    for (const path of written.paths) {
      const { graph, table } = model(2);
      await using session = await Session.create({ graph });
      await new Saver().restore(session, path);
      const found = await values(session, graph);
      expect(found).toMatchObject({
        w: written.values.w,
        'w/Adagrad': written.values['w/Adagrad'],
        words: written.values.words,
      });
      expect((await session.run(table.toOutput())).toArray()).toEqual(written.values.table);
    }
    expect((await readdir(dir)).filter((name) => name.includes('@'))).toEqual([]);
  });

  test('keeps the newest checkpoints, lists them in the checkpoint file, and removes all files of the others', async () => {
    const { graph, init, trainOp } = model(1);
    await using session = await Session.create({ graph });
    await session.run(init);
    const saver = new Saver({ maxToKeep: 2 });
    for (let i = 0; i < 4; i++) {
      await session.run(trainOp);
      await saver.save(session, join(dir, 'model.ckpt'));
    }
    expect(saver.lastCheckpoints).toEqual([join(dir, 'model.ckpt-3'), join(dir, 'model.ckpt-4')]);
    const files = await readdir(dir, { recursive: true });
    expect(files.filter((file) => /ckpt-[12]\b/.test(file))).toEqual([]);
    expect(await readFile(join(dir, 'checkpoint'), 'utf8')).toContain('model.ckpt-4');
  });

  test('does not count a damaged checkpoint that a restore has skipped', async () => {
    const one = model(1);
    await using session = await Session.create({ graph: one.graph });
    await session.run(one.init);
    const path = join(dir, 'model.ckpt');
    for (const globalStep of [1, 2, 3]) await new Saver({ maxToKeep: 2 }).save(session, path, { globalStep });
    await writeFile(join(dir, 'model.ckpt-3.data-00000-of-00001'), 'damaged');
    const saver = new Saver({ maxToKeep: 2 });
    expect((await saver.restoreNewest(session, dir))?.manifest.prefix).toBe('model.ckpt-2');
    await saver.save(session, path, { globalStep: 4 });
    const names = async () => (await saver.list(session, dir)).map(({ prefix }) => prefix);
    expect(await names()).toEqual(['model.ckpt-4', 'model.ckpt-3', 'model.ckpt-2']);
    await saver.save(session, path, { globalStep: 5 });
    expect(await names()).toEqual(['model.ckpt-5', 'model.ckpt-4']);
  });

  test('removes unfinished files older than an hour, and no others', async () => {
    const partials = join(dir, '.shoal-uploads');
    await mkdir(partials);
    for (const name of ['old.part', 'young.part']) await writeFile(join(partials, name), 'half');
    const longAgo = Date.now() / 1000 - 7200;
    await utimes(join(partials, 'old.part'), longAgo, longAgo);
    const { graph } = model(1);
    await using session = await Session.create({ graph });
    expect(await new Saver().latest(session, dir)).toBeUndefined();
    await vi.waitFor(async () => expect(await readdir(partials)).toEqual(['young.part']), {
      timeout: 30_000,
    });
  });

  test('rejects a checkpoint that lacks a variable, unless strict is false or varList omits it', async () => {
    const { graph, init, w } = model(1);
    await using session = await Session.create({ graph });
    await session.run(init);
    const path = await new Saver({ varList: { weights: w } }).save(session, join(dir, 'part'));
    await expect(new Saver().restore(session, path)).rejects.toMatchObject({ code: 'SHOAL_NOT_FOUND' });
    const report = await new Saver({ strict: false }).restore(session, path);
    expect(report.unused).toEqual(['weights']);
    expect(report.missing).toContain('w');
    await session.run(graph.asDefault(() => w.assign(tf.zeros([3, 4]))));
    await new Saver({ varList: { weights: w } }).restore(session, path);
    expect((await session.run(w.toOutput())).data.some((x) => x !== 0)).toBe(true);
  });

  test('lists the existing checkpoints when the requested one does not exist', async () => {
    const { graph, init } = model(1);
    await using session = await Session.create({ graph });
    await session.run(init);
    const saver = new Saver();
    await saver.save(session, join(dir, 'model.ckpt'), { globalStep: 7 });
    await expect(saver.restore(session, join(dir, 'model.ckpt-8'))).rejects.toMatchObject({
      code: 'SHOAL_NOT_FOUND',
      hint: 'The directory contains model.ckpt-7.',
    });
  });
});

describe('a directory with foreign files', () => {
  /** A folder that even root cannot read: the paths in it exceed the limit of the system. */
  function makeUnreadable(folder: string): void {
    const deep = Array.from({ length: 10 }, () => 'x'.repeat(250)).join('/');
    execFileSync('sh', [
      '-c',
      `mkdir "$1" && cd "$1" && mkdir -p ${deep} && cd ${deep} && mkdir -p ${deep}`,
      'sh',
      folder,
    ]);
  }

  test('is not searched: unreadable folders do no harm', async () => {
    const folder = join(dir, 'private');
    makeUnreadable(folder);
    try {
      const { graph, init } = model(1);
      await using session = await Session.create({ graph });
      await session.run(init);
      const lines: string[] = [];
      const log = (line: string) => lines.push(line);
      for (const store of ['peers:', `file:${dir}`]) {
        const path = await new Saver({ store, log }).save(session, join(dir, 'model.ckpt'));
        expect(path).toBe(join(dir, 'model.ckpt-0'));
      }
      expect(lines).toEqual([]);
    } finally {
      execFileSync('rm', ['-r', folder]);
    }
  });

  test('keeps them, regardless of age and name', async () => {
    const { graph, init } = model(1);
    await using session = await Session.create({ graph });
    await session.run(init);
    const folder = join(dir, 'backup@home');
    await mkdir(folder);
    for (const file of ['notes.txt', 'backup.tar']) {
      await writeFile(join(folder, file), 'x');
      await utimes(join(folder, file), 1, 1);
    }
    await new Saver().save(session, join(dir, 'model.ckpt'));
    expect((await readdir(folder)).sort()).toEqual(['backup.tar', 'notes.txt']);
  });
});

test('a save over files that Shoal did not write fails, and leaves them unchanged', async () => {
  const { graph, init, trainOp } = model(1);
  await using session = await Session.create({ graph });
  await session.run(init);
  const [one, two] = [join(dir, 'one'), join(dir, 'two')];
  await new Saver().save(session, join(one, 'model.ckpt'), { globalStep: 5 });
  // A copy of the checkpoint files only, without the metadata of Shoal.
  await cp(one, two, { recursive: true, filter: (path) => !/manifests|@|\.shoal/.test(path) });
  const before = await readdir(two);
  const data = join(two, 'model.ckpt-5.data-00000-of-00001');
  const bytes = await readFile(data);
  await session.run(trainOp);
  const save = () => new Saver().save(session, join(two, 'model.ckpt'), { globalStep: 5 });
  await expect(save()).rejects.toMatchObject({ code: 'SHOAL_ALREADY_EXISTS' });
  expect(await readFile(data)).toEqual(bytes);
  expect((await readdir(two)).filter((file) => file !== '.shoal-uploads')).toEqual(before);
  for (const file of before.filter((name) => name.startsWith('model.'))) await rm(join(two, file));
  expect(await save()).toBe(join(two, 'model.ckpt-5'));
  expect(await readFile(data)).not.toEqual(bytes);
});
