/** The records of the leased line job: points of y = 0.1 x + 0.3, numbered over all files; the same on every host. */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { encodeExample, TFRecordWriter } from '../../src/tensorflow/formats/index.js';

export const FILES = 4;
export const PER_FILE = 500;
export const RECORDS = FILES * PER_FILE;
export const BATCH = 100;
/** The variables that count how often each record was applied. */
export const TABLES = ['applied_a', 'applied_b'];

/** The files by name. */
export async function pointFiles(): Promise<ReadonlyMap<string, Buffer>> {
  const directory = await mkdtemp(join(tmpdir(), 'shoal-points-'));
  try {
    const files = new Map<string, Buffer>();
    for (let file = 0; file < FILES; file++) {
      const name = `points-${file}.tfrecord`;
      const writer = new TFRecordWriter(join(directory, name));
      for (let i = 0; i < PER_FILE; i++) {
        const id = file * PER_FILE + i;
        const x = (id * 0.6180339887) % 1;
        const features = { x: Float32Array.of(x), y: Float32Array.of(0.1 * x + 0.3), id: [BigInt(id)] };
        await writer.write(encodeExample(features));
      }
      await writer.close();
      files.set(name, await readFile(join(directory, name)));
    }
    return files;
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}
