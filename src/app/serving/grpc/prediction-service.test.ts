/** The prediction service over a model, for what a client of another language would not find by chance. */
import { mkdtemp, rm } from 'node:fs/promises';
import { connect } from 'node:http2';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { PredictRequestSchema, PredictResponseSchema } from '../../../base/proto/generated/serving_pb.js';
import { tf } from '../../../index.js';
import { predictSignatureDef } from '../../../training/saved-model/index.js';
import { serve } from '../serve.js';
import { writeModel } from '../testing/models.js';
import { frameOf } from './frames.js';

const DT_FLOAT = 1;

async function predict(port: number, request: Uint8Array): Promise<Buffer> {
  const session = connect(`http://127.0.0.1:${port}`);
  try {
    const stream = session.request({
      ':method': 'POST',
      ':path': '/tensorflow.serving.PredictionService/Predict',
      'content-type': 'application/grpc',
      te: 'trailers',
    });
    stream.end(frameOf([request]));
    const chunks: Buffer[] = [];
    for await (const chunk of stream) chunks.push(chunk as Buffer);
    return Buffer.concat(chunks).subarray(5);
  } finally {
    session.destroy();
  }
}

test('a large output that is an input is returned as it was sent', async () => {
  const root = await mkdtemp(join(tmpdir(), 'shoal-grpc-'));
  try {
    await writeModel(join(root, 'pass', '1'), () => {
      const x = tf.placeholder({ dtype: 'float32', shape: [null], name: 'x' });
      return {
        signatures: {
          serving_default: predictSignatureDef({ inputs: { x }, outputs: { x, y: tf.identity(x) } }),
        },
      };
    });
    await using serving = await serve({
      models: { pass: join(root, 'pass') },
      restPort: false,
      grpcPort: 0,
      log: () => {},
    });
    const floats = Float32Array.from({ length: 100_000 }, (_, i) => i);
    const x = {
      dtype: DT_FLOAT,
      tensorShape: { dim: [{ size: BigInt(floats.length) }] },
      tensorContent: new Uint8Array(floats.buffer),
    };
    const request = create(PredictRequestSchema, { modelSpec: { name: 'pass' }, inputs: { x } });
    const answer = await predict(serving.grpcPort as number, toBinary(PredictRequestSchema, request));
    const { outputs } = fromBinary(PredictResponseSchema, answer);
    for (const name of ['x', 'y']) expect(outputs[name]?.floatVal).toEqual([...floats]);
  } finally {
    await rm(root, { recursive: true, force: true });
  }
});
