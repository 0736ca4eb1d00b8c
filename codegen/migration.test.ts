/** The table in docs/migration.md, the names that it promises, and its program. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, test } from 'vitest';
import { Graph, Session, tf } from '../src/index.js';
import { locateTensorFlow } from '../src/tensorflow/native/library/locate.js';
import { ROOT, startNode } from '../test/setup/run-setup.js';
import { snippets } from '../test/snippets.js';
import { exists, generateMigration, migrationRows, readCuration, readNames } from './migration.js';
import { differences } from './output.js';

test('the table is in the tree as the generator writes it', () => {
  expect(differences(ROOT, generateMigration())).toEqual([]);
});

test('every name of Shoal in the table exists', () => {
  const targets = migrationRows().flatMap((row) => ('target' in row ? [row.target] : []));
  expect(targets.filter((target) => !exists(target))).toEqual([]);
});

test('every curated name is one of TensorFlow 1', () => {
  const names = new Set(readNames());
  expect(Object.keys(readCuration().renamed).filter((name) => !names.has(name))).toEqual([]);
});

test('the names that programs of TensorFlow 1 use most are where they were', () => {
  const used = `float32 int64 string Session Graph placeholder constant getVariable matmul reduceMean argmax
    nn.relu nn.softmax nn.softmaxCrossEntropyWithLogits nn.embeddingLookup nn.l2Loss losses.meanSquaredError
    layers.dense layers.batchNormalization metrics.accuracy data.Dataset summary.scalar summary.FileWriter
    train.Server train.ClusterSpec train.Saver train.MonitoredTrainingSession train.Supervisor
    train.SyncReplicasOptimizer train.getOrCreateGlobalStep train.latestCheckpoint train.replicaDeviceSetter
    train.StopAtStepHook train.RMSPropOptimizer train.shuffleBatch savedModel.Builder savedModel.simpleSave
    addToCollection getCollection toFloat toInt32 toInt64 einsum erf nn.gelu asString strings.asString strings.join
    strings.length strings.lower strings.regexReplace strings.split strings.substr strings.toHashBucketFast
    strings.toNumber io.TFRecordWriter random.uniform math.log initializers.zeros`;
  expect(used.split(/\s+/).filter((name) => !exists(`tf.${name}`))).toEqual([]);
});

test('an op that TensorFlow has under two names is not missing under one of them', () => {
  const rows = new Map(migrationRows().map((row) => [row.name, row]));
  for (const [top, module] of [
    ['tf.as_string', 'tf.strings.as_string'],
    ['tf.regex_replace', 'tf.strings.regex_replace'],
    ['tf.substr', 'tf.strings.substr'],
    ['tf.reduce_join', 'tf.strings.reduce_join'],
  ] as const) {
    expect(rows.get(top), top).toHaveProperty('target');
    expect(rows.get(module), module).toHaveProperty('target');
  }
});

test('an alias is the function itself', () => {
  expect(tf.reduceMean).toBe(tf.mean);
  expect(tf.nn.softmax).toBe(tf.softmax);
  expect(tf.losses.meanSquaredError).toBe(tf.losses.meanSquared);
  expect(tf.train.RMSPropOptimizer).toBe(tf.train.RmsPropOptimizer);
});

test('operands by name give the same values as by position', async () => {
  using graph = new Graph();
  const pairs = graph.asDefault(() => {
    const labels = tf.constant([[0.5, 1, 0]]);
    const logits = tf.constant([[1, 2, 3]]);
    const weights = 2;
    return [
      [
        tf.losses.huberLoss({ labels, predictions: logits, weights }),
        tf.losses.huber(labels, logits, { weights }),
      ],
      [
        tf.losses.softmaxCrossEntropy({ onehotLabels: labels, logits }),
        tf.losses.softmaxCrossEntropy(labels, logits),
      ],
      [
        tf.nn.sigmoidCrossEntropyWithLogits({ labels, logits }),
        tf.nn.sigmoidCrossEntropyWithLogits(labels, logits),
      ],
    ] as const;
  });
  await using session = Session.open({ graph });
  for (const [named, positional] of await session.run(pairs)) {
    expect(named.toArray()).toEqual(positional.toArray());
  }
  expect(() => tf.losses.huberLoss({ labels: 1 } as never)).toThrow(/\{ labels, predictions \}/);
});

test('the program of the page runs', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'shoal-migration-'));
  const file = join(directory, 'program.mts');
  writeFileSync(file, snippets('docs/migration.md', 'ts')[0] as string);
  const loader = pathToFileURL(join(ROOT, 'node_modules/tsx/dist/loader.mjs')).href;
  const { code, stdout, stderr } = await startNode(
    ['--import', loader, file],
    { SHOAL_TF_DIR: locateTensorFlow().dir, TMPDIR: directory },
    { cwd: ROOT },
  ).ended;
  rmSync(directory, { recursive: true, force: true });
  expect(code, stderr).toBe(0);
  expect(stdout).toMatch(/model\.ckpt-50\n$/);
});
