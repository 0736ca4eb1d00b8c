/** Writes TFRecord files without TensorFlow's library. */
import { mkdir } from 'node:fs/promises';
import { encodeExample, TFRecordWriter } from 'shoal/formats';

await mkdir('data', { recursive: true });
for (let file = 0; file < 4; file++) {
  const writer = new TFRecordWriter(`data/points-${file}.tfrecord`);
  for (let i = 0; i < 1000; i++) {
    const x = Math.random();
    await writer.write(encodeExample({ x: Float32Array.of(x), y: Float32Array.of(0.1 * x + 0.3) }));
  }
  await writer.close();
}
