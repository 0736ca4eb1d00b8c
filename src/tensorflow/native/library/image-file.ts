/** A library file, addressed as the loader would map it; the library is not loaded. */
import { closeSync, openSync, readSync } from 'node:fs';
import { ShoalError } from '../../../base/errors/errors.js';
import type { ElfImage } from './elf.js';

const PT_LOAD = 1;
const HEADER_BYTES = 64;

interface Segment {
  readonly address: bigint;
  readonly offset: bigint;
  readonly bytes: bigint;
}

/** Opens the library at `path` for `look`, and closes it afterwards. */
export function withImageFile<T>(path: string, look: (image: ElfImage) => T): T {
  const file = openSync(path, 'r');
  try {
    const readAt = (offset: bigint, length: number): Uint8Array => {
      const bytes = new Uint8Array(length);
      const count = readSync(file, bytes, 0, length, offset);
      if (count === length) return bytes;
      throw new ShoalError(
        'SHOAL_LIBRARY',
        `${path} is truncated: it ends at byte ${offset + BigInt(count)}`,
        {
          hint: 'Download it again: run `npx shoal setup`.',
        },
      );
    };
    const segments = loadSegments(readAt);
    return look({
      read(address, length) {
        const segment = segments.find((s) => address >= s.address && address < s.address + s.bytes);
        // Addresses outside all segments (the headers) equal file offsets.
        return readAt(segment ? address - segment.address + segment.offset : address, length);
      },
    });
  } finally {
    closeSync(file);
  }
}

function loadSegments(readAt: (offset: bigint, length: number) => Uint8Array): Segment[] {
  const header = new DataView(readAt(0n, HEADER_BYTES).buffer);
  const [size, count] = [header.getUint16(54, true), header.getUint16(56, true)];
  const table = new DataView(readAt(header.getBigUint64(32, true), size * count).buffer);
  return Array.from({ length: count }, (_, i) => i * size)
    .filter((at) => table.getUint32(at, true) === PT_LOAD)
    .map((at) => ({
      offset: table.getBigUint64(at + 8, true),
      address: table.getBigUint64(at + 16, true),
      bytes: table.getBigUint64(at + 32, true),
    }));
}
