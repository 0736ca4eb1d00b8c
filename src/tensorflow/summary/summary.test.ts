/** Summaries through TensorBoard's own reader; tags, collections and bad input. */

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fromBinary } from '@bufbuild/protobuf';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { askPython } from '../../../test/python.js';
import { SummarySchema } from '../../base/proto/generated/event_pb.js';
import { Graph } from '../graph/graph.js';
import type { Output } from '../graph/operation.js';
import { constant, placeholder } from '../ops/index.js';
import { Session } from '../session/session.js';
import { Tensor } from '../tensor/tensor.js';
import { exportMetaGraph } from '../variables/meta-graph.js';
import * as summary from './index.js';

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'shoal-summary-'));
});
afterAll(async () => {
  await rm(directory, { recursive: true, force: true });
});

interface Seen {
  readonly scalars: Record<string, [step: number, value: number][]>;
  readonly histograms: Record<string, number[][]>;
  readonly images: Record<string, [number, number, number, number[]][]>;
  readonly texts: Record<string, [step: number, strings: string[]][]>;
  readonly plugins: Record<string, string[]>;
  readonly graphNodes: string[];
  readonly hasMetaGraph: boolean;
  readonly runMetadata: string[];
  readonly wallTimes: number[];
}

/** Reads each directory with TensorBoard, in one process. */
function tensorBoard(...logdirs: string[]): Promise<Seen[]> {
  return askPython(new URL('./testing/read-events.py', import.meta.url), null, logdirs);
}

const CLOCK = 1_700_000_000_000;

/** A run with a summary of each kind, the graph, a MetaGraph and a trace. */
async function writeAllKinds(logdir: string): Promise<void> {
  using graph = new Graph();
  await graph.asDefault(async () => {
    const x = placeholder({ shape: [4], name: 'x' });
    const loss = x.mean();
    graph.nameScope('train', () => summary.scalar('loss', loss));
    summary.histogram('weights', x);
    summary.image('digits', x.reshape([1, 2, 2, 1]).tile([5, 1, 1, 1]), { maxOutputs: 2 });
    summary.text('note', constant(['**hello**', 'Grüße']));
    const all = summary.mergeAll() as Output<'string'>;
    await using writer = new summary.FileWriter(logdir, { graph, now: () => CLOCK });
    writer.addMetaGraph(exportMetaGraph({ graph }));
    await using session = Session.open({ graph });
    for (const step of [1, 2, 3]) {
      const feeds = [[x, [step, 0, 1, 2]]] as const;
      writer.addSummary(await session.run(all, { feeds }), step);
    }
    writer.addScalar('accuracy', 0.75, 3n);
    await session.run(loss, {
      feeds: [[x, [1, 2, 3, 4]]],
      onMetadata: (metadata) => writer.addRunMetadata(metadata, 'step3', 3),
    });
  });
}

async function writeRestart(logdir: string): Promise<void> {
  await using writer = new summary.FileWriter(logdir);
  writer.addSessionLog('start', 1);
  for (const step of [1, 2, 3, 4]) writer.addScalar('loss', step, step);
  writer.addSessionLog('start', 3);
  writer.addScalar('loss', 30, 3);
}

describe('an event file in TensorBoard', () => {
  let all: Seen;
  let restarted: Seen;
  beforeAll(async () => {
    const logdirs = [join(directory, 'all'), join(directory, 'restart')] as const;
    await writeAllKinds(logdirs[0]);
    await writeRestart(logdirs[1]);
    [all, restarted] = (await tensorBoard(...logdirs)) as [Seen, Seen];
  }, 240_000);

  it('shows scalars', () => {
    expect(all.scalars).toEqual({
      'train/loss': [
        [1, 1],
        [2, 1.25],
        [3, 1.5],
      ],
      accuracy: [[3, 0.75]],
    });
  });

  it('shows histograms', () => {
    expect(all.histograms).toEqual({
      weights: [
        [1, 0, 2, 4, 4, 4],
        [2, 0, 2, 4, 5, 4],
        [3, 0, 3, 4, 6, 4],
      ],
    });
  });

  it('shows at most maxOutputs images', () => {
    expect(Object.keys(all.images).sort()).toEqual(['digits/image/0', 'digits/image/1']);
    expect(all.images['digits/image/0']?.[0]).toEqual([1, 2, 2, [2, 2]]);
  });

  it('shows texts', () => {
    expect(all.texts).toEqual({ note: [1, 2, 3].map((step) => [step, ['**hello**', 'Grüße']]) });
  });

  it('assigns each summary to its plugin', () => {
    expect(all.plugins).toEqual({
      scalars: ['accuracy', 'train/loss'],
      histograms: ['weights'],
      images: ['digits/image/0', 'digits/image/1'],
      text: ['note'],
    });
  });

  it('shows the graph and the trace of a run', () => {
    expect(all.graphNodes).toContain('train/loss');
    expect(all.hasMetaGraph).toBe(true);
    expect(all.runMetadata).toEqual(['step3']);
  });

  it('has the times of the injected clock', () => {
    expect(new Set(all.wallTimes)).toEqual(new Set([CLOCK / 1000]));
  });

  it('is truncated at the step where a run restarts', () => {
    expect(restarted.scalars.loss).toEqual([
      [1, 1],
      [2, 2],
      [3, 30],
    ]);
  });
});

/** Runs a summary op and returns its tags. */
async function tagsOf(graph: Graph, fetch: Output): Promise<string[]> {
  await using session = Session.open({ graph });
  const [bytes] = (await session.run(fetch)).bytes();
  return fromBinary(SummarySchema, bytes as Uint8Array).value.map(({ tag }) => tag);
}

describe('tags', () => {
  it('are scoped names, numbered if taken, without invalid characters', async () => {
    using graph = new Graph();
    await graph.asDefault(async () => {
      summary.scalar('loss', 1);
      summary.scalar('loss', 2);
      summary.scalar('how far?', 3);
      graph.nameScope('eval', () => summary.scalar('loss', 4));
      summary.scalar('loss', 5, { family: 'group' });
      const tags = await tagsOf(graph, summary.mergeAll() as Output);
      expect(tags).toEqual(['loss', 'loss_1', 'how_far_', 'eval/loss', 'group/group/loss']);
    });
  });
});

describe('collections', () => {
  it('select the summaries that mergeAll merges', async () => {
    using graph = new Graph();
    await graph.asDefault(async () => {
      expect(summary.mergeAll()).toBeUndefined();
      summary.scalar('a', 1);
      summary.scalar('b', 2, { collections: ['evaluation'] });
      summary.scalar('c', 3, { collections: [] });
      expect(await tagsOf(graph, summary.mergeAll() as Output)).toEqual(['a']);
      expect(await tagsOf(graph, summary.mergeAll('evaluation') as Output)).toEqual(['b']);
    });
  });
});

describe('bad input to summaries', () => {
  it('is rejected with the value in the message', () => {
    using graph = new Graph();
    graph.asDefault(() => {
      expect(() => summary.scalar('x', [1, 2])).toThrow(/takes one number; .* has shape \[2\]/);
      expect(() => summary.image('x', [[1]])).toThrow(/takes \[batch, height, width, channels\]/);
      expect(() => summary.text('x', 1)).toThrow(/takes strings; .* is float32/);
      expect(() => summary.scalar('/', 1)).toThrow(/needs a name/);
      expect(() => summary.merge([])).toThrow(/no summaries to merge/);
    });
  });

  it('is rejected by the writer, and so is use after close', async () => {
    const writer = new summary.FileWriter(join(directory, 'bad'));
    expect(() => writer.addSummary(Tensor.of([1]), 1)).toThrow(/is not a summary/);
    expect(() => writer.addSummary(Uint8Array.of(255, 255), 1)).toThrow(/2 bytes as a Summary/);
    expect(() => writer.addScalar('x', 1, 1.5)).toThrow(/step must be an integer, got 1.5/);
    await writer.close();
    expect(() => writer.addScalar('x', 1, 1)).toThrow(/is closed/);
  });
});
