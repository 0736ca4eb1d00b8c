/**
 * Finds the row of a CSV file that TensorFlow refused: its message names neither the file nor the line. The rules are
 * those of TensorFlow's readers; a row that only they refuse is not found.
 */
import type { Compression } from '../../formats/tfrecord/compression.js';
import { count } from '../../text/format.js';
import { bytesOf } from './text-scan.js';

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
    isEmpty = false;
    const reason = isHeader ? undefined : (row.flaw ?? flawOf(row.fields, format));
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

/** The rows of a file; a field in quotes may contain newlines. */
async function* rowsOf(
  file: string,
  { delimiter, quotes, compression }: CsvFormat,
  signal: AbortSignal | undefined,
): AsyncGenerator<Row> {
  let text = '';
  let first = 1;
  let lines = 0;
  for await (const line of linesOf(file, compression, signal)) {
    lines += 1;
    text = text === '' && first === lines ? line : `${text}\n${line}`;
    const { fields, flaw, isOpen } = split(text, delimiter, quotes);
    if (isOpen) continue;
    if (text !== '') yield { line: first, fields, ...(flaw && { flaw }) };
    text = '';
    first = lines + 1;
  }
  if (text !== '') yield { line: first, fields: [], flaw: 'a quote is not closed' };
}

function split(text: string, delimiter: string, quotes: boolean) {
  const fields: string[] = [];
  let at = 0;
  for (;;) {
    if (quotes && text[at] === '"') {
      const [whole = '', inner] = /^"((?:[^"]|"")*)"/.exec(text.slice(at)) ?? [];
      if (inner === undefined) return { fields, isOpen: true };
      fields.push(inner.replaceAll('""', '"'));
      at += whole.length;
      if (at < text.length && text[at] !== delimiter)
        return { fields, flaw: 'a quoted field is followed by other text', isOpen: false };
    } else {
      const end = text.indexOf(delimiter, at);
      const field = text.slice(at, end < 0 ? undefined : end);
      if (quotes && field.includes('"'))
        return { fields, flaw: 'a field without quotes around it contains a quote', isOpen: false };
      fields.push(field);
      at += field.length;
    }
    if (at >= text.length) return { fields, isOpen: false };
    at += 1;
  }
}

/** The lines of a file, without their ends. */
async function* linesOf(
  file: string,
  compression: Compression,
  signal: AbortSignal | undefined,
): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of bytesOf(file, compression, signal)) {
    const parts = (rest + decoder.decode(chunk, { stream: true })).split('\n');
    rest = parts.pop() as string;
    for (const part of parts) yield part.replace(/\r$/, '');
  }
  if (rest !== '') yield rest.replace(/\r$/, '');
}
