/**
 * Files of records whose ranges can be found and read, whatever their format. The chief scans them, every worker reads
 * ranges of them; a file that can't be entered in its middle is one range.
 */

import type { Output } from '../../graph/operation.js';
import { reshape } from '../../ops/arrays.js';
import * as raw from '../../ops/generated/index.js';
import type { DType } from '../../tensor/dtype.js';
import { Dataset, int64 } from '../dataset/dataset.js';
import type { ByteRange } from '../dataset/record-ranges.js';
import type { Spec } from '../dataset/structure.js';

const STRING: Spec = { kind: 'tensor', dtype: 'string', shape: [] };

export const vectorOf = <D extends DType>(scalar: Output<D>) => reshape(scalar, [1]) as Output<D>;

/** Records of one length between two places of a plain file. */
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
 * The text of a range of a plain file, whole: one element. Ranges of text are small for that reason. Where there are no
 * names the range may be empty, which TensorFlow would not hear of.
 */
export const textOf = (
  names: Output<'string'>,
  range: ByteRange,
  buffer: Parameters<typeof raw.fixedLengthRecordDatasetV2>[4],
): Dataset<Output<'string'>> =>
  equalRecords(names, range, raw.maximum(range.bytes, int64(1)) as Output<'int64'>, buffer);

/** The lines of a text: one more than it has records if it ends with the end of a line. */
export function linesOf(text: Output<'string'>): Output<'string'> {
  return raw.stringSplitV2(vectorOf(raw.regexReplace(text, '\r', '')), '\n').values as Output<'string'>;
}
