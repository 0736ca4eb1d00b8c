/** The exports of a job in one process, verified with unmodified TensorFlow. */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { askPython } from '../../../../test/python.js';
import { encodeExample } from '../../../tensorflow/formats/example/encode.js';
import type { Output } from '../../../tensorflow/graph/operation.js';
import {
  classificationSignatureDef,
  loadSavedModel,
  predictSignatureDef,
} from '../../../training/saved-model/index.js';
import { owner } from '../../../training/saved-model/writing/staging.js';
import { versionsOf } from '../../../training/saved-model/writing/versions.js';
import * as tf from '../../tf/index.js';
import { defineJob, type ExportOptions } from '../definition/define-job.js';
import { runInProcess } from '../running/run-local.js';

const ORACLE = new URL('../../../training/saved-model/testing/oracle.py', import.meta.url);

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'shoal-job-export-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Each step adds 1 to `count`. */
const counting = (exported: Omit<ExportOptions, 'signatures'>, lastStep = 10) =>
  defineJob({
    name: 'counting',
    input: () => ({ x: tf.zeros([5]), unused: tf.zeros([5, 2]) }),
    model({ input: { x, unused }, training }) {
      const count = tf.variable('count', { shape: [], initializer: 0 });
      const sum = x.add(count).add(training ? 1000 : 0);
      return {
        loss: tf.neg(count.add(tf.sum(unused))),
        optimizer: tf.train.sgd(1),
        outputs: { count, sum },
      };
    },
    train: { lastStep },
    export: exported,
  });

const serve = async (dir: string, x: readonly number[]) => {
  await using model = await loadSavedModel(dir);
  const { sum } = await model.signatures.serving_default!({ x: [...x] });
  return (sum as { toArray(): unknown }).toArray();
};

describe('a job with export options', () => {
  it('exports its outputs at the end, with the inputs that they need, built for serving', async () => {
    const dir = join(folder, 'end');
    const { exported = '' } = await runInProcess(counting({}), { dir });
    expect(exported).toMatch(/end\/export\/\d+$/);
    await using model = await loadSavedModel(exported);
    const { inputs, outputs } = model.signatures.serving_default!;
    expect(inputs).toEqual({ x: expect.objectContaining({ dtype: 'float32', shape: [null] }) });
    expect(Object.keys(outputs)).toEqual(['sum']);
    expect(await serve(exported, [1, 2])).toEqual([11, 12]);
  });

  it('exports every so many steps and keeps the newest; other directories stay', async () => {
    const dir = join(folder, 'steps');
    const other = join(dir, 'export', '7');
    mkdirSync(other, { recursive: true });
    writeFileSync(join(other, 'saved_model.pb'), '');
    const byHand = join(dir, 'export', '8', 'assets.extra');
    mkdirSync(byHand, { recursive: true });
    writeFileSync(join(byHand, 'shoal.json'), JSON.stringify({ job: 'counting', step: 1, by: 'command' }));
    // As a killed exporter on this machine leaves it.
    mkdirSync(join(dir, 'export', `.123.tmp-${owner()}-4194305-0123456789ab`));
    const lines: string[] = [];
    const job = counting({ everySteps: 4, latest: 2 }, 200);
    for (let i = 0; i < 2; i++) await runInProcess(job, { dir, log: (line) => lines.push(line) });
    // In each of two runs one at the end, and at least one before.
    expect(lines.filter((line) => line.startsWith('exported step')).length).toBeGreaterThanOrEqual(4);
    const versions = await versionsOf('counting', join(dir, 'export'));
    expect(readdirSync(join(dir, 'export')).sort()).toEqual(
      ['7', '8', ...versions.map(({ version }) => String(version))].sort(),
    );
    expect(versions).toHaveLength(2);
    expect(versions[0]?.origin).toEqual({ job: 'counting', step: 200 });
    expect(await serve(versions[0]!.path, [0])).toEqual([200]);
  });

  it('does not export a finished model again', async () => {
    const dir = join(folder, 'finished');
    const job = defineJob({
      ...counting({}),
      train: { lastStep: 3, checkpoint: { everySecs: 3600 } },
    });
    const first = await runInProcess(job, { dir });
    const again = await runInProcess(job, { dir });
    expect(again.ownSteps).toBe(0);
    expect(again.exported).toBe(first.exported);
    expect(readdirSync(join(dir, 'export'))).toHaveLength(1);
  });

  it('exports the signatures that it declares, which Python calls', async () => {
    const job = defineJob({
      name: 'classes',
      input: () => ({ pixels: tf.ones([4, 3]), label: tf.zeros([4], 'int32') }),
      model({ input: { pixels, label } }) {
        const w = tf.variable('w', {
          shape: [3, 2],
          initializer: [
            [1, 0],
            [0, 1],
            [0, 2],
          ],
        });
        const logits = tf.matMul(pixels, w);
        const loss = tf.losses.sparseSoftmaxCrossEntropy(label, logits);
        return { loss, optimizer: tf.train.sgd(0), outputs: { scores: tf.softmax(logits) } };
      },
      train: { lastStep: 1 },
      export: {
        signatures({ model }) {
          const examples = tf.placeholder({ dtype: 'string', shape: [null], name: 'examples' });
          const { pixels } = tf.parseExample(examples, { pixels: tf.fixedLenFeature([3], 'float32') });
          const { outputs } = model({ pixels: pixels as Output });
          const { values, indices } = tf.raw.topKV2(outputs.scores, tf.constant(1, { dtype: 'int32' }));
          const names = tf.lookup.indexToStringTableFromTensor(['left', 'right']);
          return {
            serving_default: classificationSignatureDef({
              examples,
              classes: names.lookup(tf.cast(indices, 'int64')),
              scores: values,
            }),
            scores: predictSignatureDef({ inputs: { pixels: pixels as Output }, outputs }),
          };
        },
      },
    });
    const { exported } = await runInProcess(job, { dir: join(folder, 'declared') });
    const plain = await runInProcess(counting({}), { dir: join(folder, 'plain') });
    const example = Buffer.from(encodeExample({ pixels: [0, 0, 1] })).toString('latin1');
    const [classes, scores, sums] = await askPython<
      [{ classes: string[] }, { scores: number[] }, { sum: number[] }]
    >(ORACLE, [
      { how: 'v2', dir: exported, signature: 'serving_default', inputs: { inputs: [example] } },
      { how: 'v2', dir: exported, signature: 'scores', inputs: { pixels: [[0, 0, 1]] } },
      { how: 'v2', dir: plain.exported, signature: 'serving_default', inputs: { x: [1, 2] } },
    ]);
    expect(sums.sum).toEqual([11, 12]);
    expect(classes.classes).toEqual(['right']);
    expect(scores.scores?.[1]).toBeCloseTo(Math.exp(2) / (1 + Math.exp(2)), 6);
  });

  it('exports values of one step, however fast it trains', async () => {
    const dir = join(folder, 'whole');
    const names = Array.from({ length: 40 }, (_, i) => `v${i}`);
    const job = defineJob({
      name: 'whole',
      input: () => ({ x: tf.zeros([1]) }),
      model({ input: { x } }) {
        const variables = names.map((name) => tf.variable(name, { shape: [], initializer: 0 }));
        const all = tf.stack(variables.map((variable) => variable.toOutput()));
        return { loss: tf.neg(tf.sum(all)), optimizer: tf.train.sgd(1), outputs: { all: all.add(x) } };
      },
      train: { lastStep: 300 },
      export: { everySteps: 1, latest: 0 },
    });
    await runInProcess(job, { dir });
    const versions = await versionsOf('whole', join(dir, 'export'));
    expect(versions.length).toBeGreaterThan(1);
    for (const { path } of versions) {
      await using model = await loadSavedModel(path);
      const { all } = await model.signatures.serving_default!({ x: [0] });
      expect(new Set((all as { toArray(): number[] }).toArray()).size).toBe(1);
    }
  });

  const brokenSource = () =>
    tf.data.generator(
      function* (): Generator<{ x: number[] }> {
        for (let i = 0; i < 50; i++) yield { x: [1, 1, 1, 1, 1] };
        throw new Error('the source is broken');
      },
      { element: { x: { dtype: 'float32', shape: [5] } } },
    );

  it('stops exporting when training fails', async () => {
    const lines: string[] = [];
    const job = defineJob({
      name: 'fails',
      input: brokenSource,
      model({ input: { x } }) {
        const w = tf.variable('w', { shape: [], initializer: 0 });
        const y = x.add(w);
        return { loss: tf.sum(y), optimizer: tf.train.sgd(1), outputs: { y } };
      },
      train: { lastStep: 1_000_000 },
      export: { everySecs: 0.02 },
    });
    const running = runInProcess(job, { dir: join(folder, 'fails'), log: (line) => lines.push(line) });
    await expect(running).rejects.toThrow(/the source is broken/);
    const { length } = lines;
    await new Promise((done) => setTimeout(done, 200));
    expect(lines.slice(length)).toEqual([]);
  });

  it('is rejected before training if its variables differ for serving', async () => {
    const job = defineJob({
      name: 'differs',
      input: () => ({ x: tf.zeros([5]) }),
      model({ input: { x }, training }) {
        const w = tf.variable('w', { shape: [training ? 5 : 1], initializer: tf.zerosInitializer() });
        const y = x.mul(w);
        return { loss: tf.sum(y), optimizer: tf.train.sgd(1), outputs: { y } };
      },
      train: { lastStep: 10 },
      export: {},
    });
    await expect(runInProcess(job, { dir: join(folder, 'differs') })).rejects.toThrow(
      /The variable 'w' is float32 \[1\] in the graph for serving, but float32 \[5\] in the graph that trains/,
    );
  });

  it('is rejected before training if it can export nothing', async () => {
    const job = defineJob({
      name: 'nothing',
      input: () => ({ x: tf.zeros([5]) }),
      model({ input: { x } }) {
        const w = tf.variable('w', { shape: [], initializer: 0 });
        return { loss: tf.sum(x.sub(w).square()), optimizer: tf.train.sgd(1), outputs: { w } };
      },
      train: { lastStep: 10 },
      export: {},
    });
    const lines: string[] = [];
    await expect(
      runInProcess(job, { dir: join(folder, 'nothing'), log: (line) => lines.push(line) }),
    ).rejects.toThrow(/Job 'nothing' has nothing to export: no output of its model depends on the input/);
    expect(lines).toEqual([]);
  });

  it('is rejected with invalid options', () => {
    expect(() => counting({ everySteps: 0 })).toThrow(/export\.everySteps of job 'counting' must be above 0/);
    expect(() => counting({ evrySecs: 3 } as object)).toThrow(/unknown option 'export\.evrySecs'/);
    const best = { metric: 'loss', mode: 'mni' } as unknown as { metric: string; mode: 'min' };
    expect(() => counting({ best })).toThrow(/export\.best of job 'counting' must be like/);
    expect(() => counting({ latest: -1 })).toThrow(/export\.latest/);
    expect(() => counting({ best: { metric: 'loss', mode: 'min' } })).toThrow(/needs an evaluation/);
  });
});

describe('an export that is stopped', () => {
  it('leaves nothing, and is repeated when the job is restarted', async () => {
    const dir = join(folder, 'stopped');
    const stop = new AbortController();
    const job = defineJob({ ...counting({}), train: { lastStep: 3, checkpoint: { everySecs: 3600 } } });
    const lines: string[] = [];
    const log = (line: string) => {
      lines.push(line);
      // The last checkpoint is there: the export is next.
      if (line.startsWith('saved model.ckpt-3')) stop.abort();
    };
    const { interrupted, exported } = await runInProcess(job, { dir, log, signal: stop.signal });
    expect([interrupted, exported]).toEqual([true, undefined]);
    expect(lines.at(-1)).toMatch(/stopped before the model was exported/);
    expect(existsSync(join(dir, 'export')) ? readdirSync(join(dir, 'export')) : []).toEqual([]);
    const again = await runInProcess(job, { dir });
    expect(await serve(again.exported ?? '', [1])).toEqual([4]);
  });
});
