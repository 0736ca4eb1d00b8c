/**
 * Finds the row of a CSV file that TensorFlow refused: its message names neither the file nor the line. The rules are
 * those of TensorFlow's readers; a row that only they refuse is not found.
 */

import { bytes, count } from '../../../base/text/format.js';
import type { Compression } from '../../../tensorflow/formats/tfrecord/compression.js';
import { decompressedBytes } from './text-scan.js';

export interface CsvColumn {
  readonly name: string;
  readonly dtype: 'float32' | 'float64' | 'int32' | 'int64' | 'string';
  /** Whether an empty field is an error. */
  readonly isRequired: boolean;
}

export interface CsvFormat {
  /** All columns, in order; undefined for those that are not kept. */
  readonly columns: readonly (CsvColumn | undefined)[];
  readonly header: boolean;
  readonly delimiter: string;
  readonly quotes: boolean;
  readonly naValue: string;
  readonly compression: Compression;
}

export interface BadRow {
  /** Counted from 1, with the header. */
  readonly line: number;
  readonly reason: string;
}

export const EMPTY_FILE = 'the file is empty; it should begin with a header';

/** Longer rows are not searched. */
const MOST_CHARS = 1 << 20;

interface Row {
  readonly line: number;
  readonly fields: readonly string[];
  /** Why it has no fields. */
  readonly flaw?: string;
}

export async function findBadRow(
  file: string,
  format: CsvFormat,
  signal?: AbortSignal,
): Promise<BadRow | undefined> {
  let isHeader = format.header;
  let isEmpty = true;
  for await (const row of rowsOf(file, format, signal)) {
    if (!row) return undefined;
    isEmpty = false;
    const reason = row.flaw ?? (isHeader ? undefined : flawOf(row.fields, format));
    if (reason !== undefined) return { line: row.line, reason };
    isHeader = false;
  }
  return isEmpty && format.header ? { line: 1, reason: EMPTY_FILE } : undefined;
}

function flawOf(fields: readonly string[], { columns, naValue }: CsvFormat): string | undefined {
  if (fields.length !== columns.length)
    return `it has ${count(fields.length, 'field')} instead of ${columns.length} (${columns.map((one) => one?.name ?? '…').join(', ')})`;
  for (const [i, column] of columns.entries()) {
    if (!column) continue;
    const text = fields[i] as string;
    if (text === '' || (naValue !== '' && text === naValue)) {
      if (column.isRequired) return `column '${column.name}' is empty and has no default`;
    } else if (!isOf(column.dtype, text)) {
      return `column '${column.name}' is ${JSON.stringify(text)}, which is not of type ${column.dtype}`;
    }
  }
  return undefined;
}

function isOf(dtype: CsvColumn['dtype'], text: string): boolean {
  const number = text.trim();
  switch (dtype) {
    case 'string':
      return true;
    case 'float32':
    case 'float64':
      return /^[+-]?(nan|inf(inity)?)$/i.test(number) || (number !== '' && Number.isFinite(Number(number)));
    case 'int32':
    case 'int64': {
      if (!/^[+-]?\d+$/.test(number)) return false;
      const size = dtype === 'int32' ? 32 : 64;
      const value = BigInt(number.replace('+', ''));
      return BigInt.asIntN(size, value) === value;
    }
  }
}

/** The rows of a file; undefined for one that is too long, with which the search ends. A field in quotes may contain newlines. */
async function* rowsOf(
  file: string,
  format: CsvFormat,
  signal: AbortSignal | undefined,
): AsyncGenerator<Row | undefined> {
  const parser = new RowParser(format);
  for await (const line of linesOf(file, format.compression, signal)) {
    const row = parser.take(line);
    if (parser.size > MOST_CHARS) {
      yield parser.unclosed(` within ${bytes(MOST_CHARS)}`);
      return;
    }
    if (row) yield row;
  }
  const unclosed = parser.unclosed();
  if (unclosed) yield unclosed;
}

/** Parses rows line by line: each character once, however many lines a field has. */
class RowParser {
  readonly #delimiter: string;
  readonly #quotes: boolean;
  #fields: string[] = [];
  /** The parts of the quoted field that has not ended. */
  #open: string[] | undefined;
  #openedAt = 0;
  #lines = 0;
  #first = 1;
  #size = 0;

  constructor({ delimiter, quotes }: Pick<CsvFormat, 'delimiter' | 'quotes'>) {
    this.#delimiter = delimiter;
    this.#quotes = quotes;
  }

  /** The characters of the row that was parsed last, or has not ended. */
  get size(): number {
    return this.#size;
  }

  /** The row that ends with this line; undefined if none does, or if it is empty. */
  take(line: string): Row | undefined {
    this.#lines += 1;
    if (!this.#open) {
      this.#fields = [];
      this.#first = this.#lines;
      this.#size = 0;
    }
    this.#size += line.length + 1;
    const isEmpty = !this.#open && line === '';
    const flaw = this.#parse(line);
    if (flaw !== undefined) this.#open = undefined;
    if (this.#open || isEmpty) return undefined;
    return { line: this.#first, fields: this.#fields, flaw };
  }

  /** The row that has not ended, if there is one. */
  unclosed(where = ''): Row | undefined {
    if (!this.#open) return undefined;
    return { line: this.#openedAt, fields: [], flaw: `a quote opened in this line is not closed${where}` };
  }

  /** Returns why the row has no fields. */
  #parse(line: string): string | undefined {
    let at = 0;
    for (;;) {
      if (this.#open || (this.#quotes && line[at] === '"')) {
        if (!this.#open) {
          at += 1;
          this.#open = [];
          this.#openedAt = this.#lines;
        }
        const end = this.#closing(line, at);
        if (end < 0) {
          this.#open.push(line.slice(at), '\n');
          return undefined;
        }
        this.#open.push(line.slice(at, end));
        this.#fields.push(this.#open.join('').replaceAll('""', '"'));
        this.#open = undefined;
        at = end + 1;
        if (at < line.length && line[at] !== this.#delimiter)
          return 'a quoted field is followed by other text';
      } else {
        const end = line.indexOf(this.#delimiter, at);
        const field = line.slice(at, end < 0 ? undefined : end);
        if (this.#quotes && field.includes('"')) return 'a field without quotes around it contains a quote';
        this.#fields.push(field);
        at += field.length;
      }
      if (at >= line.length) return undefined;
      at += 1;
    }
  }

  /** Where the quote that closes a field is; -1 if the field continues in the next line. */
  #closing(line: string, from: number): number {
    for (let at = line.indexOf('"', from); at >= 0; at = line.indexOf('"', at + 2))
      if (line[at + 1] !== '"') return at;
    return -1;
  }
}

/** The lines of a file, without their ends. A line that is longer than a row may be is returned in parts. */
async function* linesOf(
  file: string,
  compression: Compression,
  signal: AbortSignal | undefined,
): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of decompressedBytes(file, compression, signal)) {
    const parts = (rest + decoder.decode(chunk, { stream: true })).split('\n');
    rest = parts.pop() as string;
    for (const part of parts) yield part.replace(/\r$/, '');
    if (rest.length <= MOST_CHARS) continue;
    yield rest;
    rest = '';
  }
  if (rest !== '') yield rest.replace(/\r$/, '');
}
