import { describe, expect, test } from 'vitest';
import { answerOf, moduleUrl } from '../../../../test/child.js';
import { ONEDNN_VARIABLE, oneDnnHint, oneDnnSetting } from './onednn.js';

const LIBRARY = moduleUrl('src/tensorflow/native/library/library.ts');
/** Runs one op of each kind; prints the code and hint of its error, or null. */
const PROGRAM = `
  const { library } = await import('${LIBRARY}');
  const graph = new Graph();
  const image = (shape) => tf.constant(Tensor.of(new Float32Array(shape.reduce((a, b) => a * b)), { shape }));
  const builders = {
    channelsFirst: () => tf.raw.maxPool(image([1, 2, 4, 4]),
      { ksize: [1, 1, 2, 2], strides: [1, 1, 2, 2], padding: 'VALID', dataFormat: 'NCHW' }),
    dilatedGradient: () => tf.raw.conv2DBackpropInput(
      tf.constant([1, 5, 6, 2], { dtype: 'int32' }), image([3, 3, 2, 4]), image([1, 5, 6, 4]),
      { strides: [1, 1, 1, 1], padding: 'SAME', dilations: [1, 2, 2, 1] }),
  };
  const raised = {};
  const session = Session.open({ graph });
  for (const [name, build] of Object.entries(builders)) {
    const failed = (error) => ({ code: error.code, hint: error.hint });
    raised[name] = await session.run(graph.asDefault(build)).then(() => null, failed);
  }
  console.log(JSON.stringify({ oneDnn: library().oneDnn, raised }));`;

interface Answer {
  readonly oneDnn: boolean;
  readonly raised: Readonly<Record<string, { code: string; hint: string } | null>>;
}

const isLinux = process.platform === 'linux';

describe.skipIf(!isLinux)('a process', () => {
  test('with TF_ENABLE_ONEDNN_OPTS=1 has the kernels that only oneDNN has', async () => {
    const answer = await answerOf<Answer>(PROGRAM, { env: { [ONEDNN_VARIABLE]: '1' } });
    expect(answer).toEqual({ oneDnn: true, raised: { channelsFirst: null, dilatedGradient: null } });
  });

  test('with TF_ENABLE_ONEDNN_OPTS=0 rejects them with a hint to enable oneDNN', async () => {
    const answer = await answerOf<Answer>(PROGRAM, { env: { [ONEDNN_VARIABLE]: '0' } });
    const refusal = (instead: RegExp) => ({
      code: 'SHOAL_TF_INVALID_ARGUMENT',
      hint: expect.stringMatching(new RegExp(`oneDNN is off: set ${ONEDNN_VARIABLE}=1 .*${instead.source}`)),
    });
    expect(answer).toEqual({
      oneDnn: false,
      raised: { channelsFirst: refusal(/NHWC/), dilatedGradient: refusal(/dilations of 1/) },
    });
  });

  test.skipIf(process.arch !== 'x64')('on x86_64 turns oneDNN on by default, in any thread', async () => {
    const seen = `
      const { library } = await import('${LIBRARY}');
      const { default: koffi } = await import('koffi');
      library();
      const getenv = koffi.load(null).func('getenv', 'str', ['str']);
      const seen = getenv('${ONEDNN_VARIABLE}');`;
    const worker = `(async () => {
      (await import('${moduleUrl('node_modules/tsx/dist/esm/api/index.mjs')}')).register();
      ${seen}
      (await import('node:worker_threads')).parentPort.postMessage(seen);
    })();`;
    const env = { [ONEDNN_VARIABLE]: undefined };
    expect(await answerOf(`${seen} console.log(seen);`, { env })).toBe(1);
    const inThread = `
      const { Worker } = await import('node:worker_threads');
      const worker = new Worker(${JSON.stringify(worker)}, { eval: true });
      const [seen] = await (await import('node:events')).once(worker, 'message');
      console.log(seen);
      await worker.terminate();`;
    expect(await answerOf(inThread, { env })).toBe(1);
  });
});

test('the user’s setting takes precedence, and Shoal sets a default on x86_64 Linux only', () => {
  const env = { [ONEDNN_VARIABLE]: '0' };
  expect(oneDnnSetting(env, 'linux-x64')).toBe('0');
  expect(oneDnnSetting(env, 'linux-arm64')).toBe('0');
  expect(oneDnnSetting({}, 'linux-x64')).toBe('1');
  expect(oneDnnSetting({ [ONEDNN_VARIABLE]: '' }, 'linux-x64')).toBe('1');
  expect(oneDnnSetting({}, 'linux-arm64')).toBeUndefined();
  expect(oneDnnSetting({}, 'darwin-arm64')).toBeUndefined();
});

test.each([
  'The Conv2D op currently only supports the NHWC tensor format on the CPU. The op was given the format: NCHW',
  'Conv2DCustomBackpropInputOp only supports NHWC.',
  'Depthwise convolution on CPU is only supported for NHWC format',
  'Current kernel implementation does not support dilations, received [1 2 2 1]',
  'CPU implementation of Conv3D currently only supports dilated rates of 1.',
  'The implementation of FusedBatchNormGrad with is_training=False only support NHWC tensor format for now.',
])('%s: has a hint when oneDNN is off', (message) => {
  expect(oneDnnHint(message, false, 'linux')).toContain(`${ONEDNN_VARIABLE}=1`);
  expect(oneDnnHint(message, false, 'darwin')).toContain('built without it');
  expect(oneDnnHint(message, true, 'linux')).toBeUndefined();
  expect(oneDnnHint(message, undefined, 'linux')).toBeUndefined();
});

test('other errors have no oneDNN hint', () => {
  expect(oneDnnHint('Incompatible shapes: [2] vs. [3]', false)).toBeUndefined();
});
