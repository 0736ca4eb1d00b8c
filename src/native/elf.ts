/**
 * Just enough of ELF to find, in a library that is loaded, the slot through which it calls a function of
 * another library. Everything is read from the mapped image; nothing is read from the file.
 */
import koffi from 'koffi';
import type { Pointer } from './c-api.js';

const PT_DYNAMIC = 2;
const PT_GNU_RELRO = 0x6474e552;
const DT_PLTRELSZ = 2n;
const DT_STRTAB = 5n;
const DT_SYMTAB = 6n;
const DT_STRSZ = 10n;
const DT_JMPREL = 23n;
const DT_FLAGS = 30n;
const DF_BIND_NOW = 8n;
/** Elf64_Rela is (offset, info, addend), Elf64_Sym begins with its name: 24 bytes each. */
const ENTRY_WORDS = 6;
/** R_X86_64_JUMP_SLOT and R_AARCH64_JUMP_SLOT. */
const JUMP_SLOT: Readonly<Record<string, number>> = { x64: 7, arm64: 1026 };

export type SlotSearch =
  | { readonly slot: Pointer; readonly why?: undefined }
  | { readonly slot?: undefined; readonly why: string };

const bytesAt = (address: Pointer, length: number): DataView => new DataView(koffi.view(address, length));

/** The jump slot for `symbol` in the library whose image begins at `base`. */
export function findJumpSlot(base: Pointer, symbol: string, arch: string = process.arch): SlotSearch {
  const wanted = JUMP_SLOT[arch];
  if (wanted === undefined) return { why: `jump slots of ${arch} are not known` };
  const header = bytesAt(base, 64);
  if (header.getUint32(0) !== 0x7f454c46) return { why: 'the image is not ELF' };
  const { dynamic, relro } = segments(base, header);
  if (dynamic === undefined) return { why: 'the library has no dynamic section' };
  const table = dynamicTable(base, dynamic);
  const [relocations, size] = [table.get(DT_JMPREL), Number(table.get(DT_PLTRELSZ) ?? 0n)];
  const [symbols, strings] = [table.get(DT_SYMTAB), table.get(DT_STRTAB)];
  if (!relocations || !symbols || !strings)
    return { why: 'the library has no table of lazily bound functions' };
  if (((table.get(DT_FLAGS) ?? 0n) & DF_BIND_NOW) !== 0n)
    return { why: 'the library binds its functions at load' };

  // Both tables are of 64-bit words; each entry is read as six 32-bit ones.
  const entries = new Uint32Array(koffi.view(relocations, size));
  const names = Buffer.from(koffi.view(strings, Number(table.get(DT_STRSZ) ?? 0n)));
  const expected = Buffer.from(`${symbol}\0`);
  let last = 0;
  for (let at = 0; at < entries.length; at += ENTRY_WORDS) last = Math.max(last, entries[at + 3] as number);
  const symbolTable = new Uint32Array(koffi.view(symbols, (last + 1) * ENTRY_WORDS * 4));
  for (let at = 0; at < entries.length; at += ENTRY_WORDS) {
    if (entries[at + 2] !== wanted) continue;
    const name = symbolTable[(entries[at + 3] as number) * ENTRY_WORDS] as number;
    const end = name + expected.length;
    if (names[end - 1] !== 0 || names.compare(expected, 0, expected.length, name, end) !== 0) continue;
    const offset = (BigInt(entries[at + 1] as number) << 32n) | BigInt(entries[at] as number);
    if (relro && offset >= relro.start && offset < relro.end)
      return { why: 'the slot is in memory that is read-only' };
    return { slot: base + offset };
  }
  return { why: `the library does not call ${symbol}` };
}

function segments(base: Pointer, header: DataView) {
  const offset = Number(header.getBigUint64(32, true));
  const [size, count] = [header.getUint16(54, true), header.getUint16(56, true)];
  const table = bytesAt(base + BigInt(offset), size * count);
  let dynamic: { address: Pointer; size: number } | undefined;
  let relro: { start: bigint; end: bigint } | undefined;
  for (let i = 0; i < count; i++) {
    const type = table.getUint32(i * size, true);
    const address = table.getBigUint64(i * size + 16, true);
    const length = table.getBigUint64(i * size + 40, true);
    if (type === PT_DYNAMIC) dynamic = { address, size: Number(length) };
    if (type === PT_GNU_RELRO) relro = { start: address, end: address + length };
  }
  return { dynamic, relro };
}

/** The dynamic section as a map. The loader may have turned offsets into addresses, or not. */
function dynamicTable(
  base: Pointer,
  { address, size }: { address: Pointer; size: number },
): Map<bigint, bigint> {
  const section = bytesAt(base + address, size);
  const table = new Map<bigint, bigint>();
  for (let at = 0; at + 16 <= size; at += 16) {
    const tag = section.getBigUint64(at, true);
    if (tag === 0n) break;
    const value = section.getBigUint64(at + 8, true);
    const isAddress = tag === DT_JMPREL || tag === DT_SYMTAB || tag === DT_STRTAB;
    table.set(tag, isAddress && value < base ? base + value : value);
  }
  return table;
}
