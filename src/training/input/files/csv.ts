/** Rows of CSV files, parsed by TensorFlow. */

import { stat } from 'node:fs/promises';
import { invalid } from '../../../base/errors/errors.js';
import { type OrNull, withoutNull } from '../../../base/errors/null-options.js';
import type { Output } from '../../../tensorflow/graph/operation.js';
import * as raw from '../../../tensorflow/ops/generated/index.js';
import type { DType } from '../../../tensorflow/tensor/dtype.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { Dataset } from '../dataset/dataset.js';
import type { ByteRange, RangeFormat } from '../dataset/record-ranges.js';
import { type Spec, typesOf } from '../dataset/structure.js';
import { type CsvColumn, EMPTY_FILE } from './csv-rows.js';
import {
  bufferSize,
  compressionName,
  type FileReadOptions,
  type FileSource,
  isUncompressed,
  readFiles,
} from './files.js';
import { badRow } from './input-errors.js';
import { linesOf, textOf, vectorOf } from './record-files.js';
import { scanCsv } from './text-scan.js';

export type ColumnType = 'float32' | 'float64' | 'int32' | 'int64' | 'string';

/** The type of a column, optionally with a default for empty fields; without one they are an error. */
export type Column = ColumnType | { readonly dtype: ColumnType; readonly default: number | bigint | string };

export type Columns = Readonly<Record<string, Column>>;

export interface CsvOptions<C extends Columns> extends FileReadOptions {
  /** All columns of the files, in order. */
  readonly columns: C;
  /** The columns to keep; default: all. */
  readonly select?: readonly (keyof C & string)[];
  /** Whether to skip the first line of each file; default: false. */
  readonly header?: boolean;
  /** The character between fields; default: ','. */
  readonly delimiter?: string;
  /** Whether fields may be in double quotes; default: true. */
  readonly quotes?: boolean;
  /** The text of a missing value, in addition to the empty field; default: none. */
  readonly naValue?: string;
}

export type TypeOf<K> = K extends { readonly dtype: infer D extends DType } ? D : K extends DType ? K : never;

export type Row<C extends Columns> = { -readonly [K in keyof C]: Output<TypeOf<C[K]>> };

interface ColumnChoice {
  readonly columns: Columns;
  readonly select?: readonly string[];
}

/** The columns that are read: their types, and the values of empty fields. */
function chosenColumns({ columns, select }: ColumnChoice) {
  const names = Object.keys(columns);
  if (names.length === 0) throw invalid('csv needs at least one column');
  const chosen = select ? names.filter((name) => select.includes(name)) : names;
  const unknown = select?.find((name) => !names.includes(name));
  if (unknown !== undefined)
    throw invalid(`There is no column '${unknown}'; the columns are ${names.join(', ')}`);
  const read = chosen.map((name) => columns[name] as Column);
  const types = read.map((column) => (typeof column === 'string' ? column : column.dtype));
  const defaults = read.map((column, i) => {
    const values = typeof column === 'string' ? [] : [column.default];
    return Tensor.of(values as number[], { dtype: types[i] as ColumnType, shape: [values.length] });
  });
  return { names, chosen, types, defaults };
}

export function csv<const C extends Columns>(
  source: FileSource,
  given: OrNull<CsvOptions<C>>,
): Dataset<Row<C>> {
  const options = withoutNull<CsvOptions<C>>(given);
  const { names, chosen, types, defaults } = chosenColumns(options);
  const spec: Spec = {
    kind: 'record',
    entries: chosen.map((name, i) => [name, { kind: 'tensor', dtype: types[i] as DType, shape: [] }]),
  };
  const indices = options.select ? chosen.map((name) => BigInt(names.indexOf(name))) : [];
  const { header = false, delimiter = ',', quotes = true, naValue = '', compression } = options;
  const rowsIn = (files: Output<'string'>) =>
    new Dataset<Row<C>>(
      raw.csvDatasetV2(
        files,
        compressionName(compression),
        bufferSize(options),
        header,
        delimiter,
        quotes,
        naValue,
        Tensor.of(BigInt64Array.from(indices), { shape: [indices.length] }),
        defaults,
        Tensor.of(new BigInt64Array(0), { shape: [0] }),
        { outputShapes: chosen.map(() => []) },
      ),
      spec,
    );
  const decode = (lines: Output<'string'>) =>
    raw.decodeCSV(lines, defaults, {
      fieldDelim: delimiter,
      useQuoteDelim: quotes,
      naValue,
      selectCols: indices,
    });
  const format: RangeFormat<Dataset<Row<C>>> = {
    read: (range) => {
      if (!isUncompressed(options)) return rowsIn(vectorOf(range.file));
      const { whole, part } = wholeOrPart(range);
      const rows = textOf(part, range, bufferSize(options)).flatMap((text) => {
        const fields = decode(firstOf(linesOf(text), range.records));
        return new Dataset<Row<C>>(raw.tensorSliceDataset(fields, typesOf(spec)), spec);
      });
      return rows.concatenate(rowsIn(whole));
    },
    scan: async (file, scan) => {
      // TensorFlow fails as well: it reads a header from every file.
      if (header && (await isEmpty(file))) throw badRow(file, { line: 1, reason: EMPTY_FILE });
      return scanCsv(file, { ...scan, compression, header, delimiter, quotes });
    },
  };
  const columns = names.map((name): CsvColumn | undefined => {
    const at = chosen.indexOf(name);
    if (at < 0) return undefined;
    return { name, dtype: types[at] as ColumnType, isRequired: typeof options.columns[name] === 'string' };
  });
  const rows = { columns, header, delimiter, quotes, naValue, compression: compression ?? 'none' };
  return readFiles(source, rowsIn, options.parallelFiles, format, rows);
}

const isEmpty = (file: string): Promise<boolean> =>
  stat(file).then(
    ({ size }) => size === 0,
    () => false,
  );

/** The file name for the reader of whole files or for the reader of ranges; the other gets none. */
function wholeOrPart({ file, bytes }: ByteRange): { whole: Output<'string'>; part: Output<'string'> } {
  const isPart = raw.cast(raw.greater(bytes, Tensor.of(0n)), { dstT: 'int64' });
  const names = (count: Output<'int64'>) => firstOf(vectorOf(file), count);
  return { whole: names(raw.sub(Tensor.of(1n), isPart) as Output<'int64'>), part: names(isPart) };
}

const firstOf = (vector: Output<'string'>, count: Output<'int64'>): Output<'string'> =>
  raw.slice(vector, Tensor.of(BigInt64Array.of(0n)), vectorOf(count)) as Output<'string'>;
