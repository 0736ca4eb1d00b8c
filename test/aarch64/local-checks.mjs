/** Checks in one process: the library, tensors of every dtype, graphs, sessions, errors. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { crc32c } from '../../dist/base/bytes/crc32c.js';
import { Graph, listLiveHandles, liveHandles, Session, Tensor, tf } from '../../dist/index.js';
import { library } from '../../dist/tensorflow/native/library/library.js';

const TIMEOUT_MS = 60_000;

/** Builds a separate graph, runs what `build` returns, and returns plain values. */
async function run(build, feeds = () => []) {
  const graph = new Graph();
  const session = Session.open({ graph });
  try {
    const built = graph.asDefault(build);
    const { fetches, placeholders = [] } = built.fetches ? built : { fetches: built };
    const values = feeds();
    const fed = new Map(placeholders.map((placeholder, i) => [placeholder, values[i]]));
    const results = await session.run(fetches, { feeds: fed, timeoutMs: TIMEOUT_MS });
    return results instanceof Tensor ? results.toArray() : results.map((tensor) => tensor.toArray());
  } finally {
    session.dispose();
    graph.dispose();
  }
}

/** Longer than the 22 bytes that are stored inline in a string element. */
const LONG = 'a string of more than twenty-two bytes 🐟';

/** Values that each dtype represents exactly. */
const SAMPLES = {
  float32: [1.5, -2, 2 ** 100],
  float64: [Math.PI, -1e-300, 0],
  float16: [0.5, -1.25, 65504, 2 ** -24],
  bfloat16: [0.5, -1.25, 2 ** 100],
  int8: [-128, 127],
  int16: [-32768, 32767],
  int32: [-(2 ** 31), 2 ** 31 - 1],
  int64: [-(2n ** 63n), 2n ** 63n - 1n],
  uint8: [0, 255],
  uint16: [0, 65535],
  uint32: [0, 2 ** 32 - 1],
  uint64: [0n, 2n ** 64n - 1n],
  bool: [true, false, true],
  complex64: [{ re: 1.5, im: -2 }],
  complex128: [{ re: Math.PI, im: 1e-300 }],
  string: ['', 'fish', LONG],
};

export const localChecks = ({ arch }) => [
  [
    `this is ${arch}`,
    () => {
      assert.equal(process.arch, arch);
      assert.equal(new Uint8Array(Uint16Array.of(1).buffer)[0], 1, 'little-endian');
    },
  ],
  [
    'the library that set-up downloaded for this platform loads and has the pinned version',
    () => {
      const lock = JSON.parse(readFileSync(new URL('../../tensorflow.lock.json', import.meta.url), 'utf8'));
      assert.equal(library().C.TF_Version(), lock.version);
      assert.equal(library().located.source, 'cache');
    },
  ],
  [
    'native crc32c matches the table implementation',
    () => {
      const bytes = Uint8Array.from({ length: 64 }, (_, i) => i * 7);
      assert.equal(crc32c(bytes), crc32c(bytes.subarray(32), crc32c(bytes.subarray(0, 32))));
    },
  ],
  [
    'a graph runs with feeds and fetches',
    async () => {
      const build = () => {
        const a = tf.placeholder({ shape: [2, 2] });
        const b = tf.placeholder({ shape: [2, 2] });
        return { fetches: [tf.matMul(a, b), a.add(b)], placeholders: [a, b] };
      };
      const matrix = (flat) => Tensor.of(flat, { shape: [2, 2] });
      const results = await run(build, () => [matrix([1, 2, 3, 4]), matrix([5, 6, 7, 8])]);
      assert.deepEqual(results.flat(2), [19, 22, 43, 50, 6, 8, 10, 12]);
    },
  ],
  [
    `${Object.keys(SAMPLES).length} dtypes pass through a graph unchanged`,
    async () => {
      const dtypes = Object.keys(SAMPLES);
      const build = () => {
        const placeholders = dtypes.map((dtype) => tf.placeholder({ dtype }));
        return { fetches: placeholders.map((placeholder) => tf.identity(placeholder)), placeholders };
      };
      const results = await run(build, () => dtypes.map((dtype) => Tensor.of(SAMPLES[dtype], { dtype })));
      for (const [i, dtype] of dtypes.entries()) assert.deepEqual(results[i], SAMPLES[dtype], dtype);
    },
  ],
  [
    'TensorFlow computes with float16, 64-bit integers, complex numbers and strings',
    async () => {
      const of = (value, dtype) => tf.constant(value, { dtype });
      const [half, wide, complex, text] = await run(() => [
        of([1.5, 2], 'float16').mul(of([2, 0.25], 'float16')),
        of([2n ** 62n], 'int64').add(of([2n ** 61n], 'int64')),
        of([{ re: 0, im: 1 }], 'complex64').mul(of([{ re: 0, im: 1 }], 'complex64')),
        tf.raw.stringJoin([of(['x', LONG], 'string'), of(['y', LONG], 'string')], { separator: '-' }),
      ]);
      assert.deepEqual(half, [3, 0.5]);
      assert.deepEqual(wide, [2n ** 62n + 2n ** 61n]);
      assert.deepEqual(complex, [{ re: -1, im: 0 }]);
      assert.deepEqual(text, ['x-y', `${LONG}-${LONG}`]);
    },
  ],
  [
    'an op takes a list of inputs and returns several outputs',
    async () => {
      const [joined, second] = await run(() => {
        const joined = tf.concat([[1, 2], [3], [4, 5, 6]], 0);
        return [joined, tf.split(joined, 3)[1]];
      });
      assert.deepEqual(joined, [1, 2, 3, 4, 5, 6]);
      assert.deepEqual(second, [3, 4]);
    },
  ],
  [
    'a large result is a view of TensorFlow’s memory',
    async () => {
      const graph = new Graph();
      const session = Session.open({ graph });
      const range = graph.asDefault(() => tf.range(0, 100_000, 1));
      const tensor = await session.run(range, { timeoutMs: TIMEOUT_MS });
      const { data } = tensor;
      assert.equal(data.length, 100_000);
      assert.equal(data[99_999], 99_999);
      tensor.dispose();
      assert.equal(data.length, 0);
      session.dispose();
      graph.dispose();
    },
  ],
  [
    'a loop runs, with a function as its body',
    async () => {
      const belowTen = (i) => tf.less(i, 10);
      assert.deepEqual(await run(() => tf.whileLoop(belowTen, (i) => i.add(3), [0])), [12]);
    },
  ],
  [
    'an optimizer updates a variable',
    async () => {
      const graph = new Graph();
      const session = Session.open({ graph });
      const { init, step, w, loss } = graph.asDefault(() => {
        const w = tf.newVariable(tf.constant([4, -3]), { name: 'w' });
        const loss = w.square().sum();
        const [gradient] = tf.gradients(loss, [w]);
        const step = w.assignSub(gradient.mul(0.25));
        return { init: tf.globalVariablesInitializer(), step, w, loss };
      });
      await session.run(init, { timeoutMs: TIMEOUT_MS });
      for (let i = 0; i < 3; i++) await session.run(step, { timeoutMs: TIMEOUT_MS });
      const result = await session.run({ w, loss }, { timeoutMs: TIMEOUT_MS });
      assert.deepEqual(result.w.toArray(), [0.5, -0.375]);
      assert.equal(result.loss.item(), 0.390625);
      session.dispose();
      graph.dispose();
    },
  ],
  [
    'a TensorFlow error has its code',
    async () => {
      const build = () => tf.raw.checkNumerics(tf.constant([1]).div([0]), { message: 'divided' });
      await assert.rejects(run(build), { code: 'SHOAL_TF_INVALID_ARGUMENT', message: /divided/ });
    },
  ],
  [
    'no session, tensor, status, buffer or option leaks',
    () => {
      // The graphs of function bodies are left to the garbage collector.
      const left = listLiveHandles().filter(({ kind }) => kind !== 'graph');
      assert.deepEqual(left, []);
      const { session, tensor, status, buffer, options } = liveHandles();
      assert.deepEqual([session, tensor, status, buffer, options], [0, 0, 0, 0, 0]);
    },
  ],
];
