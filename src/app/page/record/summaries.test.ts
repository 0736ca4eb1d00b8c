import { gzipSync } from 'node:zlib';
import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import {
  HistogramProtoSchema,
  type Summary_Value,
  Summary_ValueSchema,
} from '../../../base/proto/generated/event_pb.js';
import { SummaryMemory } from './summaries.js';

const histogram = (values: { min: number; max: number; limits: number[]; counts: number[] }, tag = 'x') => {
  const num = values.counts.reduce((sum, count) => sum + count, 0);
  const { min, max } = values;
  return create(Summary_ValueSchema, {
    tag,
    value: {
      case: 'histo',
      value: create(HistogramProtoSchema, {
        ...{ min, max, num, sum: (num * (min + max)) / 2, bucketLimit: values.limits, bucket: values.counts },
      }),
    },
  });
};

const columnsOf = (...values: Summary_Value[]) => {
  const memory = new SummaryMemory();
  for (const [step, value] of values.entries()) memory.add(value, { at: step, step });
  return memory.state('a').histograms[0]?.columns ?? [];
};

test('the counts of uneven buckets are spread over even parts, in thousandths', () => {
  const [column] = columnsOf(histogram({ min: 0, max: 24, limits: [6, 24, 1e300], counts: [30, 10, 0] }));
  expect(column!.parts).toHaveLength(24);
  expect(column!.parts.slice(0, 6)).toEqual(Array(6).fill(125));
  expect(column!.parts.slice(6)).toEqual(Array(18).fill(14));
  expect([column!.least, column!.most, column!.mean]).toEqual([0, 24, 12]);
});

test('equal values are one part; what is no number, or nothing, is left out', () => {
  const [column] = columnsOf(histogram({ min: 3, max: 3, limits: [2, 4], counts: [0, 7] }));
  expect(column!.parts[0]).toBe(1000);
  const none = { min: 1, max: 1, limits: [], counts: [] };
  expect(columnsOf(histogram(none))).toEqual([]);
  expect(columnsOf(histogram({ ...none, counts: [1], max: Number.NaN }))).toEqual([]);
});

test('many steps and tags take bounded memory; the first and the newest step stay', () => {
  const memory = new SummaryMemory();
  for (let step = 0; step < 1000; step++)
    for (let tag = 0; tag < 40; tag++) {
      const counts = Array.from({ length: 20 }, (_, i) => ((i * 7919 + step * 31 + tag) % 97) + 1);
      const limits = counts.map((_, i) => i + 1);
      if (step % 500 === 0 || tag === 0)
        memory.add(histogram({ min: 0, max: 20, limits, counts }, `tag${tag}`), { at: step, step });
    }
  const { histograms } = memory.state('a');
  expect(histograms).toHaveLength(24);
  const { columns } = histograms[0]!;
  expect(columns.length).toBeLessThanOrEqual(48);
  expect(columns.length).toBeGreaterThan(20);
  expect([columns[0]!.step, columns.at(-1)!.step]).toEqual([0, 999]);
  const steps = columns.map(({ step }) => step);
  expect(steps).toEqual([...steps].sort((a, b) => a - b));
  expect(gzipSync(JSON.stringify(memory.state('a'))).byteLength).toBeLessThan(200_000);
});
