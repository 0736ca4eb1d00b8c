import { describe, expect, test } from 'vitest';
import { Graph } from '../graph/graph.js';
import { Tensor } from '../tensor/tensor.js';
import { Handle, listLiveHandles, liveHandles } from './handle.js';
import { nativeBytes } from './library/pressure.js';

const counted = (kind: 'buffer' | 'graph') => liveHandles()[kind];

describe('a handle', () => {
  test('frees its pointer once, even if disposed repeatedly', () => {
    const freed: bigint[] = [];
    const handle = new Handle('buffer', 7n, (pointer) => freed.push(pointer));
    expect(handle.pointer).toBe(7n);
    handle.dispose();
    handle.dispose();
    handle[Symbol.dispose]();
    expect(freed).toEqual([7n]);
    expect(handle.disposed).toBe(true);
  });

  test('used after dispose throws and names its call site', () => {
    const handle = new Handle('buffer', 7n, () => {});
    handle.dispose();
    expect(() => handle.pointer).toThrowError(
      expect.objectContaining({
        code: 'SHOAL_DISPOSED',
        message: expect.stringMatching(/This buffer was disposed; created by .*handle\.test\.ts:\d+/),
      }),
    );
  });

  test('names the given origin', () => {
    const handle = new Handle('buffer', 7n, () => {}, { origin: 'a run of x:0' });
    handle.dispose();
    expect(() => handle.pointer).toThrow('created by a run of x:0');
  });

  test('is counted by kind and in total while it is live', () => {
    const before = liveHandles();
    const handle = new Handle('buffer', 7n, () => {});
    expect(counted('buffer')).toBe(before.buffer + 1);
    expect(liveHandles().total).toBe(before.total + 1);
    handle.dispose();
    expect(liveHandles()).toEqual(before);
  });

  test('is listed with its origin', () => {
    const handle = new Handle('buffer', 7n, () => {}, { origin: 'the cellar' });
    expect(listLiveHandles()).toContainEqual({ kind: 'buffer', origin: 'the cellar' });
    handle.dispose();
    expect(listLiveHandles()).not.toContainEqual({ kind: 'buffer', origin: 'the cellar' });
  });

  test('is not freed after release', () => {
    const handle = new Handle('buffer', 7n, () => expect.fail('freed'));
    const before = counted('buffer');
    expect(handle.release()).toBe(7n);
    handle.dispose();
    expect(counted('buffer')).toBe(before - 1);
  });

  test('that is held is freed when the last holder releases it', () => {
    const freed: bigint[] = [];
    const handle = new Handle('buffer', 7n, (pointer) => freed.push(pointer));
    handle.hold();
    handle.hold();
    handle.dispose();
    expect(() => handle.pointer).toThrowError(expect.objectContaining({ code: 'SHOAL_DISPOSED' }));
    handle.letGo();
    expect(freed).toEqual([]);
    handle.letGo();
    expect(freed).toEqual([7n]);
  });

  test('that is held and released without dispose stays live', () => {
    const handle = new Handle('buffer', 7n, () => {});
    handle.hold();
    handle.letGo();
    expect(handle.pointer).toBe(7n);
    handle.dispose();
  });

  test('reports its native memory', () => {
    const before = nativeBytes();
    const handle = new Handle('buffer', 7n, () => {}, { bytes: 1000 });
    expect(nativeBytes()).toBe(before + 1000);
    handle.dispose();
    expect(nativeBytes()).toBe(before);
  });
});

describe('a graph', () => {
  test('used after dispose throws, and so do its ops', () => {
    const graph = new Graph();
    const op = graph.op('NoOp');
    graph.dispose();
    expect(() => graph.op('NoOp')).toThrowError(expect.objectContaining({ code: 'SHOAL_DISPOSED' }));
    expect(() => op.device).toThrow(/This graph was disposed; created by .*handle\.test\.ts/);
  });

  test('is counted', () => {
    const before = counted('graph');
    {
      using graph = new Graph();
      expect(counted('graph')).toBe(before + 1);
      void graph;
    }
    expect(counted('graph')).toBe(before);
  });
});

test('tensors in JavaScript memory have no handles', () => {
  const before = liveHandles();
  const tensors = Array.from({ length: 100 }, (_, i) => Tensor.of(i));
  expect(liveHandles()).toEqual(before);
  expect(tensors).toHaveLength(100);
});
