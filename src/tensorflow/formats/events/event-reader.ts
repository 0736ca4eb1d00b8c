/**
 * Reads event files. A file that is still being written may end within a record; `partial` accepts that.
 */
import { fromBinary } from '@bufbuild/protobuf';
import { isShoalError, ShoalError } from '../../../base/errors/errors.js';
import { type Event, EventSchema } from '../../../base/proto/generated/event_pb.js';
import { readTFRecordBatches, type TFRecordReadOptions, type TFRecordSource } from '../tfrecord/reader.js';

export interface EventReadOptions
  extends Pick<TFRecordReadOptions, 'source' | 'onCorrupt' | 'onSkipped' | 'signal'> {
  /** Accepts a file that ends within a record. Default: false. */
  readonly partial?: boolean;
}

export async function* readEvents(
  source: TFRecordSource,
  options: EventReadOptions = {},
): AsyncGenerator<Event> {
  const name = options.source ?? (typeof source === 'string' ? source : 'the stream');
  const batches = readTFRecordBatches(source, { ...options, allowPartialEnd: options.partial });
  for await (const batch of batches) {
    for (const { data, offset } of batch) yield parse(data, name, offset);
  }
}

function parse(data: Uint8Array, name: string, offset: number): Event {
  try {
    return fromBinary(EventSchema, data);
  } catch (cause) {
    if (isShoalError(cause)) throw cause;
    throw new ShoalError('SHOAL_CORRUPT', `${name}: the record at byte ${offset} is not an event`, { cause });
  }
}
