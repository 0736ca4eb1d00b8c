import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { encodeRecord } from '../tfrecord/record.js';
import { type EventReadOptions, readEvents } from './event-reader.js';
import { EventFileWriter, eventFileName } from './event-writer.js';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'shoal-events-'));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

const scalar = (step: number) => ({
  step: BigInt(step),
  what: {
    case: 'summary' as const,
    value: { value: [{ tag: 'loss', value: { case: 'simpleValue' as const, value: step } }] },
  },
});

async function steps(path: string, options?: EventReadOptions): Promise<number[]> {
  const found: number[] = [];
  for await (const event of readEvents(path, options))
    found.push(event.what.case === 'fileVersion' ? -1 : Number(event.step));
  return found;
}

test('a file is named after time, host and discriminator', () => {
  expect(eventFileName(1700000000.9, 'host', '7', '.v2')).toBe('events.out.tfevents.1700000000.host.7.v2');
  const writer = new EventFileWriter({
    directory,
    now: () => 1_600_000_000_123,
    host: 'ps0',
    discriminator: '1',
  });
  expect(basename(writer.path)).toBe('events.out.tfevents.1600000000.ps0.1');
  return writer.close();
});

test('the version comes first, then the events with the time of the clock', async () => {
  let now = 1000;
  const writer = new EventFileWriter({ directory, now: () => now });
  now = 2500;
  writer.write(scalar(3));
  writer.write({ ...scalar(4), wallTime: 9 });
  await writer.close();
  const times: number[] = [];
  for await (const event of readEvents(writer.path)) times.push(event.wallTime);
  expect(times).toEqual([1, 2.5, 9]);
  expect(await steps(writer.path)).toEqual([-1, 3, 4]);
});

test('events are buffered, and written on flush', async () => {
  const writer = new EventFileWriter({ directory, flushMs: 60_000 });
  writer.write(scalar(1));
  expect(await readdir(directory)).toEqual([]);
  await writer.flush();
  expect(await steps(writer.path)).toEqual([-1, 1]);
  writer.write(scalar(2));
  await writer.close();
  expect(await steps(writer.path)).toEqual([-1, 1, 2]);
});

test('events are written after a delay or when enough are buffered', async () => {
  const timed = new EventFileWriter({ directory, flushMs: 5, discriminator: 'a' });
  const sized = new EventFileWriter({ directory, flushBytes: 60, discriminator: 'b' });
  sized.write(scalar(1));
  while ((await readdir(directory)).length < 2) await setTimeout(5);
  await timed.close();
  await sized.close();
});

test('a directory that cannot be created is reported by flush and close, not by write', async () => {
  await writeFile(join(directory, 'file'), '');
  const writer = new EventFileWriter({ directory: join(directory, 'file', 'logs') });
  writer.write(scalar(1));
  await expect(writer.flush()).rejects.toMatchObject({ code: 'SHOAL_UNREACHABLE' });
  writer.write(scalar(2));
  await expect(writer.close()).rejects.toThrow(/event file .* cannot be written/);
  expect(() => writer.write(scalar(3))).toThrow(/closed/);
});

test('a file that is being written is read up to its last complete record', async () => {
  const writer = new EventFileWriter({ directory });
  for (let step = 0; step < 3; step++) writer.write(scalar(step));
  await writer.close();
  const bytes = await readFile(writer.path);
  await writeFile(writer.path, bytes.subarray(0, bytes.length - 5));
  expect(await steps(writer.path, { partial: true })).toEqual([-1, 0, 1]);
  await expect(steps(writer.path)).rejects.toMatchObject({ code: 'SHOAL_CORRUPT' });
});

test('a record that is not an event is corrupt, with its offset', async () => {
  const path = join(directory, 'wrong');
  await writeFile(path, Buffer.concat([encodeRecord(new Uint8Array(0)), encodeRecord(Uint8Array.of(255))]));
  await expect(steps(path)).rejects.toThrow(/record at byte 16 is not an event/);
});
