/** Readers of TensorFlow 1: they take file names from a queue and return the records of the files. */

import { type OrNull, withoutNull } from '../../../base/errors/null-options.js';
import type { Compression } from '../../../tensorflow/formats/tfrecord/compression.js';
import type { Output } from '../../../tensorflow/graph/operation.js';
import { inScope, scopeOf } from '../../../tensorflow/graph/scope.js';
import * as raw from '../../../tensorflow/ops/generated/index.js';
import { int64 } from '../dataset/dataset.js';
import { building } from '../dataset/sources.js';
import { compressionName } from '../files/files.js';
import type { Queue } from './queue.js';

export interface ReaderOptions {
  /** The name of the op; default: the name of the class. */
  readonly name?: string;
}

export class Reader {
  readonly handle: Output<'resource'>;

  constructor(make: () => Output<'resource'>) {
    this.handle = building(make);
  }

  /** The next record, and a key that identifies its origin. */
  read(
    queue: Queue,
    options: { readonly name?: string | null } = {},
  ): { key: Output<'string'>; value: Output<'string'> } {
    return this.#here(() => raw.readerReadV2(this.handle, queue.handle, options));
  }

  /** Up to `count` records: fewer runs for the same records. */
  readUpTo(
    queue: Queue,
    count: number,
    options: { readonly name?: string | null } = {},
  ): { keys: Output<'string'>; values: Output<'string'> } {
    return this.#here(() => raw.readerReadUpToV2(this.handle, queue.handle, int64(count), options));
  }

  #here<T>(body: () => T): T {
    const { graph, op } = this.handle;
    return inScope({ ...scopeOf(graph), devices: [op.device], colocation: undefined }, body);
  }
}

export interface TFRecordReaderOptions extends ReaderOptions {
  /** The compression of the files; default: 'none'. */
  readonly compression?: Compression;
}

export interface TextLineReaderOptions extends ReaderOptions {
  /** The lines to skip at the beginning of each file; default: 0. */
  readonly skipHeaderLines?: number;
}

/** The records of TFRecord files. */
export class TFRecordReader extends Reader {
  /** `compression` is that of the files; default: 'none'. */
  constructor(options: OrNull<TFRecordReaderOptions> = {}) {
    const { name = 'TFRecordReader', compression } = withoutNull<TFRecordReaderOptions>(options);
    super(() => raw.tfRecordReaderV2({ compressionType: compressionName(compression), name }));
  }
}

/** The lines of text files. */
export class TextLineReader extends Reader {
  /** Skips `skipHeaderLines` at the beginning of each file; default: 0. */
  constructor(options: OrNull<TextLineReaderOptions> = {}) {
    const { name = 'TextLineReader', skipHeaderLines = 0 } = withoutNull<TextLineReaderOptions>(options);
    super(() => raw.textLineReaderV2({ skipHeaderLines, name }));
  }
}

/** Whole files. */
export class WholeFileReader extends Reader {
  constructor(options: OrNull<ReaderOptions> = {}) {
    const { name = 'WholeFileReader' } = withoutNull<ReaderOptions>(options);
    super(() => raw.wholeFileReaderV2({ name }));
  }
}
