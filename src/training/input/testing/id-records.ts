/**
 * Writes files of records numbered across all files, to check what a reader consumes.
 */
import { join } from 'node:path';
import { encodeExample } from '../../../tensorflow/formats/example/encode.js';
import { TFRecordWriter } from '../../../tensorflow/formats/tfrecord/writer.js';

/** Writes `prefix-0`, `prefix-1` and so on, of Examples with an `id`. */
export async function writeIdRecords(
  folder: string,
  prefix: string,
  { files, perFile }: { readonly files: number; readonly perFile: number },
): Promise<void> {
  for (let file = 0; file < files; file++) {
    await using writer = new TFRecordWriter(join(folder, `${prefix}-${file}`));
    for (let i = 0; i < perFile; i++) await writer.write(encodeExample({ id: [BigInt(file * perFile + i)] }));
  }
}
