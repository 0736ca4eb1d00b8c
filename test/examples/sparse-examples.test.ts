import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { writeSparseExamples } from '../../examples/sparse-linear/sparse-examples.js';
import { decodeExample } from '../../src/tensorflow/formats/example/decode.js';
import { readTFRecords } from '../../src/tensorflow/formats/tfrecord/reader.js';
import { Graph } from '../../src/tensorflow/graph/graph.js';
import { fixedLenFeature, varLenFeature } from '../../src/training/input/dataset/parse-example.js';
import { tfRecord } from '../../src/training/input/files/files.js';
import { drain } from '../../src/training/input/testing/drain.js';

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'shoal-sparse-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Row {
  readonly label: number;
  readonly ids: readonly number[];
  readonly values: Float32Array;
}

async function rows(paths: readonly string[]): Promise<Row[]> {
  const found: Row[] = [];
  for (const path of paths) {
    for await (const bytes of readTFRecords(path)) {
      const { label, ids, values } = decodeExample(bytes);
      found.push({
        label: (label as Float32Array)[0] as number,
        ids: Array.from(ids as BigInt64Array, Number),
        values: values as Float32Array,
      });
    }
  }
  return found;
}

const OPTIONS = { records: 3000, files: 3, features: 1_000_000, seed: 9 };

describe('sparse examples', () => {
  let made: Row[];
  beforeAll(async () => {
    made = await rows(await writeSparseExamples({ ...OPTIONS, directory: join(folder, 'a') }));
  });

  test('have the requested count, with a value for each id', () => {
    expect(made).toHaveLength(3000);
    expect(made.every(({ ids, values }) => ids.length === values.length)).toBe(true);
    expect(made.every(({ ids }) => ids.every((id) => id >= 0 && id < OPTIONS.features))).toBe(true);
  });

  test('have about fifty ids each', () => {
    const mean = made.reduce((sum, { ids }) => sum + ids.length, 0) / made.length;
    expect(mean).toBeGreaterThan(48);
    expect(mean).toBeLessThan(52);
  });

  test('have labels of both classes', () => {
    const ones = made.filter(({ label }) => label === 1).length / made.length;
    expect(ones).toBeGreaterThan(0.1);
    expect(ones).toBeLessThan(0.9);
  });

  test('have few frequent ids and many rare ones', () => {
    const counts = new Map<number, number>();
    for (const id of made.flatMap(({ ids }) => ids)) counts.set(id, (counts.get(id) ?? 0) + 1);
    const sorted = [...counts.values()].sort((a, b) => b - a);
    const total = sorted.reduce((sum, count) => sum + count, 0);
    const top = sorted.slice(0, 100).reduce((sum, count) => sum + count, 0);
    expect(top / total).toBeGreaterThan(0.2);
    expect(sorted.filter((count) => count === 1).length / sorted.length).toBeGreaterThan(0.5);
    // Twice the rank, about half the count.
    expect((sorted[9] as number) / (sorted[19] as number)).toBeGreaterThan(1.5);
  });

  test('can be read by TensorFlow', async () => {
    const features = {
      label: fixedLenFeature([], 'float32'),
      ids: varLenFeature('int64'),
      values: varLenFeature('float32'),
    };
    const paths = await writeSparseExamples({
      ...OPTIONS,
      records: 30,
      files: 1,
      directory: join(folder, 'e'),
    });
    const [batch] = await drain(new Graph(), () => tfRecord(paths).batch(30).parseExample(features));
    const read = await rows(paths);
    expect(batch).toMatchObject({
      label: read.map(({ label }) => label),
      ids: { values: read.flatMap(({ ids }) => ids) },
      values: { values: read.flatMap(({ values }) => [...values]) },
    });
  });

  test('are the same for the same seed, and differ for another', async () => {
    const bytes = async (seed: number, name: string) => {
      const [first] = await writeSparseExamples({ ...OPTIONS, seed, directory: join(folder, name) });
      return readFileSync(first as string);
    };
    const one = await bytes(4, 'b');
    expect((await bytes(4, 'c')).equals(one)).toBe(true);
    expect((await bytes(5, 'd')).equals(one)).toBe(false);
  });
});
