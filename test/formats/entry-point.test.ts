/** `shoal/formats` as users import it: round trips, and no native code except the crc32c addon. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  decodeExample,
  EventFileWriter,
  encodeExample,
  readEvents,
  readTFRecords,
  TFRecordWriter,
} from '../../src/tensorflow/formats/index.js';

async function collect<T>(source: AsyncIterable<T>): Promise<T[]> {
  const items: T[] = [];
  for await (const item of source) items.push(item);
  return items;
}

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'shoal-formats-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test('a TFRecord file of examples round-trips', async () => {
  const path = join(folder, 'examples.tfrecord');
  const writer = new TFRecordWriter(path, { compression: 'gzip' });
  for (const id of [1n, 2n, 3n]) await writer.write(encodeExample({ id: [id] }));
  await writer.close();
  const examples = await collect(readTFRecords(path, { compression: 'gzip' }));
  expect(examples.map((bytes) => decodeExample(bytes).id)).toEqual(
    [1n, 2n, 3n].map((id) => BigInt64Array.of(id)),
  );
});

test('an event file round-trips', async () => {
  const writer = new EventFileWriter({ directory: folder });
  writer.write({
    step: 7n,
    what: {
      case: 'summary',
      value: { value: [{ tag: 'loss', value: { case: 'simpleValue', value: 0.5 } }] },
    },
  });
  await writer.close();
  const [version, event] = await collect(readEvents(writer.path));
  expect(version?.what).toEqual({ case: 'fileVersion', value: 'brain.Event:2' });
  expect(event).toMatchObject({ step: 7n, what: { value: { value: [{ tag: 'loss' }] } } });
});

test('importing it loads no native code except the crc32c addon', () => {
  const entry = new URL('../../src/tensorflow/formats/index.ts', import.meta.url).href;
  const program = `
    await import(${JSON.stringify(entry)});
    const { sharedObjects } = process.report.getReport();
    console.log(JSON.stringify(sharedObjects.filter((file) => /\\.node$|tensorflow/.test(file))));
  `;
  const args = ['--import', 'tsx', '--input-type=module', '--eval', program];
  const cwd = fileURLToPath(new URL('../..', import.meta.url));
  expect(JSON.parse(execFileSync(process.execPath, args, { cwd, encoding: 'utf8' }))).toEqual([
    expect.stringMatching(/crc32[^/]*\.node$/),
  ]);
});
