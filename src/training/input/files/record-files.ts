/**
 * Reads ranges of record files of any format. The chief scans the files, workers read ranges of them; a file that can
 * only be read from the beginning is one range.
 */

import type { Output } from '../../../tensorflow/graph/operation.js';
import { reshape } from '../../../tensorflow/ops/arrays.js';
import * as raw from '../../../tensorflow/ops/generated/index.js';
import type { DType } from '../../../tensorflow/tensor/dtype.js';
import { Dataset, int64 } from '../dataset/dataset.js';
import type { ByteRange } from '../dataset/record-ranges.js';
import type { Spec } from '../dataset/structure.js';

const STRING: Spec = { kind: 'tensor', dtype: 'string', shape: [] };

export const vectorOf = <D extends DType>(scalar: Output<D>) => reshape(scalar, [1]) as Output<D>;

/** Records of fixed length in a range of an uncompressed file. */
export function equalRecords(
  names: Output<'string'>,
  range: ByteRange,
  recordBytes: Output<'int64'> | number,
  buffer: Parameters<typeof raw.fixedLengthRecordDatasetV2>[4],
): Dataset<Output<'string'>> {
  const { offset, behind } = range;
  return new Dataset(
    raw.fixedLengthRecordDatasetV2(names, offset, int64(recordBytes), behind, buffer, ''),
    STRING,
  );
}

/**
 * The text of a range of an uncompressed file as one element, so ranges of text must be small. Without names the range
 * may be empty, but TensorFlow requires a length of at least 1.
 */
export const textOf = (
  names: Output<'string'>,
  range: ByteRange,
  buffer: Parameters<typeof raw.fixedLengthRecordDatasetV2>[4],
): Dataset<Output<'string'>> =>
  equalRecords(names, range, raw.maximum(range.bytes, int64(1)) as Output<'int64'>, buffer);

/** The lines of a text; the last is empty if the text ends with a newline. */
export function linesOf(text: Output<'string'>): Output<'string'> {
  return raw.stringSplitV2(vectorOf(raw.regexReplace(text, '\r', '')), '\n').values as Output<'string'>;
}
