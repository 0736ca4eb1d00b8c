import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, test } from 'vitest';
import type { OpDef } from '../src/base/proto/generated/graph_pb.js';
import * as raw from '../src/tensorflow/ops/generated/index.js';
import { camelCase, signatureOf } from './op-signature.js';
import { generateOps, listOps, readOpNames, readOpSummaries } from './ops.js';
import { differences, type GeneratedFolder } from './output.js';

const root = dirname(dirname(fileURLToPath(import.meta.url)));

let ops: OpDef[];
let output: GeneratedFolder;
beforeAll(() => {
  ops = listOps();
  output = generateOps();
});

describe('every op of the library', () => {
  test('has a function', () => {
    const names = readOpNames();
    const wrappers = raw as unknown as Record<string, unknown>;
    const missing = ops.filter((def) => typeof wrappers[signatureOf(def, names).name] !== 'function');
    expect(missing.map(({ name }) => name)).toEqual([]);
    expect(Object.keys(wrappers)).toHaveLength(ops.length);
  });

  test('is counted in FEATURES.md', () => {
    const features = readFileSync(join(root, 'FEATURES.md'), 'utf8');
    const counted = /<!-- ops-count -->([\d,]+)<!-- \/ops-count -->/.exec(features)?.[1]?.replaceAll(',', '');
    expect(Number(counted)).toBe(ops.length);
  });

  test('is in the tree as the generator writes it', () => {
    expect(differences(root, output)).toEqual([]);
  });
});

describe('curation', () => {
  test('names and describes ops that exist', () => {
    const known = new Set(ops.map(({ name }) => name));
    const curated = [...Object.keys(readOpNames()), ...Object.keys(readOpSummaries())];
    expect(curated.filter((name) => !known.has(name))).toEqual([]);
  });

  test('describes in one short line', () => {
    const long = Object.entries(readOpSummaries()).filter(
      ([, line]) => line.length > 90 || /[\n.]$/.test(line),
    );
    expect(long).toEqual([]);
  });
});

describe('names', () => {
  test.each([
    ['MatMul', 'matMul'],
    ['IFFT2D', 'ifft2d'],
    ['RGBToHSV', 'rgbToHSV'],
    ['FIFOQueueV2', 'fifoQueueV2'],
    ['transpose_a', 'transposeA'],
    ['N', 'n'],
    ['_Arg', '_arg'],
    ['Conv2DBackpropInput', 'conv2DBackpropInput'],
  ])('%s becomes %s', (from, to) => {
    expect(camelCase(from)).toBe(to);
  });

  test('of parameters and attributes are unique', () => {
    const clashes = ops.flatMap((def) => {
      const { inputs, attrs } = signatureOf(def, readOpNames());
      const lists = [inputs.map(({ name }) => name), attrs.map(({ name }) => name)];
      return lists.some((list) => new Set(list).size < list.length) ? [def.name] : [];
    });
    expect(clashes).toEqual([]);
  });
});
