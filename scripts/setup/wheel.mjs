/**
 * Reads a wheel, which is a zip file: lists its entries and extracts one as a stream, so that an 800 MB library needs
 * little memory. Zip64 and encryption do not occur in the pinned wheels and are refused.
 */
import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { mkdir, open } from 'node:fs/promises';
import { dirname } from 'node:path';
import { Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createInflateRaw } from 'node:zlib';
import { SetupError } from './errors.mjs';

const END_SIZE = 22;
const END_MAGIC = 0x06054b50;
const ENTRY_MAGIC = 0x02014b50;
const LOCAL_MAGIC = 0x04034b50;
const STORED = 0;
const DEFLATED = 8;

/** The files in a wheel. */
export async function listWheel(file) {
  const handle = await open(file);
  try {
    const { size } = await handle.stat();
    const tail = await read(handle, Math.max(0, size - END_SIZE - 0xffff), Math.min(size, END_SIZE + 0xffff));
    const at = tail.lastIndexOf(Buffer.from([0x50, 0x4b, 0x05, 0x06]));
    if (at < 0 || tail.readUInt32LE(at) !== END_MAGIC) throw damaged(file, 'it has no zip directory');
    const count = tail.readUInt16LE(at + 10);
    const start = tail.readUInt32LE(at + 16);
    if (count === 0xffff || start === 0xffffffff) throw damaged(file, 'it is in the zip64 format');
    return parseDirectory(file, await read(handle, start, tail.readUInt32LE(at + 12)), count);
  } finally {
    await handle.close();
  }
}

function parseDirectory(file, directory, count) {
  const entries = [];
  let at = 0;
  for (let i = 0; i < count; i++) {
    if (directory.readUInt32LE(at) !== ENTRY_MAGIC) throw damaged(file, 'its zip directory is broken');
    const nameLength = directory.readUInt16LE(at + 28);
    entries.push({
      name: directory.toString('utf8', at + 46, at + 46 + nameLength),
      method: directory.readUInt16LE(at + 10),
      packed: directory.readUInt32LE(at + 20),
      size: directory.readUInt32LE(at + 24),
      offset: directory.readUInt32LE(at + 42),
    });
    at += 46 + nameLength + directory.readUInt16LE(at + 30) + directory.readUInt16LE(at + 32);
  }
  return entries;
}

/**
 * Extracts one entry to `target` and returns its sha256. The file is flushed to the disk, so that a rename cannot
 * become durable before its content.
 */
export async function extractEntry(file, entry, target, { signal, onBytes = () => {} } = {}) {
  if (entry.method !== STORED && entry.method !== DEFLATED)
    throw damaged(file, `${entry.name} has an unknown compression method`);
  await mkdir(dirname(target), { recursive: true });
  const start = await dataOffset(file, entry);
  const hash = createHash('sha256');
  let written = 0;
  const meter = new Transform({
    transform(chunk, _encoding, done) {
      hash.update(chunk);
      written += chunk.length;
      onBytes(chunk.length);
      done(null, chunk);
    },
  });
  const source =
    entry.packed === 0
      ? []
      : [createReadStream(file, { start, end: start + entry.packed - 1, highWaterMark: 1 << 20 })];
  const inflate = entry.method === DEFLATED ? [createInflateRaw({ chunkSize: 1 << 20 })] : [];
  const sink = createWriteStream(target, { highWaterMark: 4 << 20, flush: true });
  if (source.length === 0) sink.end();
  else await pipeline([...source, ...inflate, meter, sink], { signal });
  if (written !== entry.size)
    throw damaged(file, `${entry.name} has ${written} bytes instead of ${entry.size}`);
  return hash.digest('hex');
}

/** The offset of an entry's bytes: its local header has a variable length. */
async function dataOffset(file, entry) {
  const handle = await open(file);
  try {
    const header = await read(handle, entry.offset, 30);
    if (header.readUInt32LE(0) !== LOCAL_MAGIC)
      throw damaged(file, `${entry.name} is not at the offset in the zip directory`);
    return entry.offset + 30 + header.readUInt16LE(26) + header.readUInt16LE(28);
  } finally {
    await handle.close();
  }
}

export async function sha256Of(file, { signal } = {}) {
  const hash = createHash('sha256');
  await pipeline(createReadStream(file, { highWaterMark: 1 << 20 }), hash, { signal });
  return hash.digest('hex');
}

async function read(handle, position, length) {
  const buffer = Buffer.alloc(length);
  const { bytesRead } = await handle.read(buffer, 0, length, position);
  return buffer.subarray(0, bytesRead);
}

function damaged(file, why) {
  return new SetupError('SHOAL_CORRUPT', 'damaged-wheel', `${file} cannot be read as a wheel: ${why}`, {
    hint: 'Delete it and run set-up again.',
  });
}
