/**
 * A minimal ELF reader: finds the jump slot through which a library calls a function of another one, whether a
 * library defines a function, and what of a library is never written. It reads the library's file (image-file.ts), because reading the large tables in memory
 * would make them resident in every task.
 */

/** A library's bytes by address, relative to its base address. */
export interface ElfImage {
  read(address: bigint, length: number): Uint8Array;
}

const PT_LOAD = 1;
const PT_DYNAMIC = 2;
const PT_GNU_RELRO = 0x6474e552;
const PF_W = 2;
const DT_PLTRELSZ = 2n;
const DT_STRTAB = 5n;
const DT_SYMTAB = 6n;
const DT_STRSZ = 10n;
const DT_TEXTREL = 22n;
const DT_JMPREL = 23n;
const DT_FLAGS = 30n;
const DT_GNU_HASH = 0x6ffffef5n;
const DT_FLAGS_1 = 0x6ffffffbn;
const DF_TEXTREL = 4n;
const DF_BIND_NOW = 8n;
const DF_1_NOW = 1n;
/** Elf64_Rela is (offset, info, addend), Elf64_Sym begins with its name and its info: 24 bytes each. */
const ENTRY_BYTES = 24;
const ENTRY_WORDS = 6;
/** R_X86_64_JUMP_SLOT and R_AARCH64_JUMP_SLOT by e_machine. */
const JUMP_SLOT: Readonly<Record<number, number>> = { 62: 7, 183: 1026 };
/** The string table may be large: it is searched in chunks. */
const PIECE_BYTES = 1 << 20;

export type SlotSearch =
  | { readonly slot: bigint; readonly why?: undefined }
  | { readonly slot?: undefined; readonly why: string };

/** Where the jump slot for `symbol` is. */
export function findJumpSlot(image: ElfImage, symbol: string): SlotSearch {
  const header = viewOf(image.read(0n, 64));
  if (header.getUint32(0) !== 0x7f454c46) return { why: 'the image is not ELF' };
  const machine = header.getUint16(18, true);
  const wanted = JUMP_SLOT[machine];
  if (wanted === undefined) return { why: `jump slots of machine type ${machine} are not supported` };
  const { dynamic, relro } = segments(image, header);
  if (dynamic === undefined) return { why: 'the library has no dynamic section' };
  const table = dynamicTable(image, dynamic);
  const [relocations, size] = [table.get(DT_JMPREL), Number(table.get(DT_PLTRELSZ) ?? 0n)];
  const symbols = table.get(DT_SYMTAB);
  if (relocations === undefined || symbols === undefined)
    return { why: 'the library has no table of lazily bound functions' };
  const bindsAtLoad =
    ((table.get(DT_FLAGS) ?? 0n) & DF_BIND_NOW) !== 0n || ((table.get(DT_FLAGS_1) ?? 0n) & DF_1_NOW) !== 0n;
  if (bindsAtLoad) return { why: 'the library binds its functions at load' };

  // Both tables are of 64-bit words; each entry is read as six 32-bit ones.
  const entries = wordsOf(image.read(relocations, size));
  let last = 0;
  for (let at = 0; at < entries.length; at += ENTRY_WORDS) last = Math.max(last, entries[at + 3] as number);
  const symbolTable = wordsOf(image.read(symbols, (last + 1) * ENTRY_BYTES));
  const names = occurrences(image, table, symbol);
  for (let at = 0; at < entries.length; at += ENTRY_WORDS) {
    if (entries[at + 2] !== wanted) continue;
    if (!names.has(symbolTable[(entries[at + 3] as number) * ENTRY_WORDS] as number)) continue;
    const slot = (BigInt(entries[at + 1] as number) << 32n) | BigInt(entries[at] as number);
    if (relro && slot >= relro.start && slot < relro.end) return { why: 'the slot is in read-only memory' };
    return { slot };
  }
  return { why: `the library does not call ${symbol}` };
}

/** Whether the library exports `symbol`, by its GNU hash table. */
export function defines(image: ElfImage, symbol: string): boolean {
  const header = viewOf(image.read(0n, 64));
  if (header.getUint32(0) !== 0x7f454c46) return false;
  const { dynamic } = segments(image, header);
  if (dynamic === undefined) return false;
  const table = dynamicTable(image, dynamic);
  const [hashTable, symbols, strings] = [table.get(DT_GNU_HASH), table.get(DT_SYMTAB), table.get(DT_STRTAB)];
  if (hashTable === undefined || symbols === undefined || strings === undefined) return false;
  const word = (address: bigint): number => viewOf(image.read(address, 4)).getUint32(0, true);
  const [buckets, first, bloomWords] = [word(hashTable), word(hashTable + 4n), word(hashTable + 8n)];
  const bucketsAt = hashTable + 16n + 8n * BigInt(bloomWords);
  const chainsAt = bucketsAt + 4n * BigInt(buckets);
  const hash = gnuHash(symbol);
  const expected = Buffer.from(`${symbol}\0`);
  let index = word(bucketsAt + 4n * BigInt(hash % buckets));
  // An empty bucket points before the first symbol; the last link of a chain has its lowest bit set.
  for (let link = 0; index >= first && (link & 1) === 0; index += 1) {
    link = word(chainsAt + 4n * BigInt(index - first));
    if ((link | 1) !== (hash | 1)) continue;
    const name = word(symbols + BigInt(index * ENTRY_BYTES));
    if (expected.equals(image.read(strings + BigInt(name), expected.length))) return true;
  }
  return false;
}

/** The parts of a library that have the bytes of its file in every process: not even the loader writes into them. */
export function readOnlyRanges(image: ElfImage): readonly MemoryRange[] {
  const header = viewOf(image.read(0n, 64));
  if (header.getUint32(0) !== 0x7f454c46) return [];
  const { dynamic, readOnly } = segments(image, header);
  if (dynamic === undefined) return [];
  const table = dynamicTable(image, dynamic);
  const relocatesCode = table.has(DT_TEXTREL) || ((table.get(DT_FLAGS) ?? 0n) & DF_TEXTREL) !== 0n;
  return relocatesCode ? [] : readOnly;
}

function gnuHash(name: string): number {
  let hash = 5381;
  for (const byte of Buffer.from(name)) hash = (Math.imul(hash, 33) + byte) >>> 0;
  return hash;
}

/** Offsets in the string table where a string ends with the name; a symbol may point into a longer string. */
function occurrences(image: ElfImage, table: ReadonlyMap<bigint, bigint>, symbol: string): Set<number> {
  const [strings, size] = [table.get(DT_STRTAB), Number(table.get(DT_STRSZ) ?? 0n)];
  const found = new Set<number>();
  if (strings === undefined) return found;
  const expected = Buffer.from(`${symbol}\0`);
  for (let at = 0; at < size; at += PIECE_BYTES) {
    const bytes = image.read(strings + BigInt(at), Math.min(PIECE_BYTES + expected.length, size - at));
    const piece = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
    for (let i = piece.indexOf(expected); i >= 0; i = piece.indexOf(expected, i + 1)) found.add(at + i);
  }
  return found;
}

export interface MemoryRange {
  readonly start: bigint;
  readonly end: bigint;
}

interface Segments {
  dynamic?: MemoryRange;
  relro?: MemoryRange;
  /** What is loaded and cannot be written, unless the loader relocates code. */
  readonly readOnly: MemoryRange[];
}

function segments(image: ElfImage, header: DataView): Segments {
  const [size, count] = [header.getUint16(54, true), header.getUint16(56, true)];
  const table = viewOf(image.read(header.getBigUint64(32, true), size * count));
  const found: Segments = { readOnly: [] };
  for (let i = 0; i < count; i++) {
    const type = table.getUint32(i * size, true);
    const flags = table.getUint32(i * size + 4, true);
    const start = table.getBigUint64(i * size + 16, true);
    const range = { start, end: start + table.getBigUint64(i * size + 40, true) };
    if (type === PT_DYNAMIC) found.dynamic = range;
    if (type === PT_GNU_RELRO) found.relro = range;
    if (type === PT_LOAD && (flags & PF_W) === 0) found.readOnly.push(range);
  }
  return found;
}

/** The dynamic section as a map. */
function dynamicTable(image: ElfImage, { start, end }: MemoryRange): Map<bigint, bigint> {
  const size = Number(end - start);
  const section = viewOf(image.read(start, size));
  const table = new Map<bigint, bigint>();
  for (let at = 0; at + 16 <= size; at += 16) {
    const tag = section.getBigUint64(at, true);
    if (tag === 0n) break;
    table.set(tag, section.getBigUint64(at + 8, true));
  }
  return table;
}

const viewOf = (bytes: Uint8Array): DataView => new DataView(bytes.buffer, bytes.byteOffset, bytes.length);

function wordsOf(bytes: Uint8Array): Uint32Array {
  const aligned = bytes.byteOffset % 4 === 0 ? bytes : new Uint8Array(bytes);
  return new Uint32Array(aligned.buffer, aligned.byteOffset, aligned.length >> 2);
}
