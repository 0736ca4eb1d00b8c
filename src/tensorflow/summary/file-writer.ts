/**
 * Writes summaries, graphs and run traces to an event file for TensorBoard. Adding never blocks: events are written
 * in the background after `flushSecs`, on `flush`, and on `close`.
 */

import { fromBinary, toBinary } from '@bufbuild/protobuf';
import { invalid, ShoalError } from '../../base/errors/errors.js';
import { type OrNull, withoutNull } from '../../base/errors/null-options.js';
import { type RunMetadata, RunMetadataSchema } from '../../base/proto/generated/config_pb.js';
import {
  SessionLog_SessionStatus,
  type Summary,
  SummarySchema,
} from '../../base/proto/generated/event_pb.js';
import { type MetaGraphDef, MetaGraphDefSchema } from '../../base/proto/generated/model_pb.js';
import { EventFileWriter, type EventInput } from '../formats/events/event-writer.js';
import type { Graph } from '../graph/graph.js';
import { Tensor } from '../tensor/tensor.js';
import { cleanTag } from './ops.js';

export interface FileWriterOptions {
  /** A graph to write when the writer is created; default: none. */
  readonly graph?: Graph;
  /** Flushes when the oldest event has waited this long; default: 10. */
  readonly flushSecs?: number;
  /** The suffix of the file name; default: none. */
  readonly filenameSuffix?: string;
  /** The time in milliseconds since 1970; default: `Date.now`. */
  readonly now?: () => number;
  /** Called with each summary that is added; default: none. @internal */
  readonly onSummary?: (summary: Pick<Summary, 'value'>, step: number) => void;
}

export type SummaryStep = number | bigint;
export type SessionStatus = 'start' | 'stop' | 'checkpoint';

const STATUSES: Readonly<Record<SessionStatus, SessionLog_SessionStatus>> = {
  start: SessionLog_SessionStatus.START,
  stop: SessionLog_SessionStatus.STOP,
  checkpoint: SessionLog_SessionStatus.CHECKPOINT,
};

export class FileWriter {
  readonly logdir: string;
  readonly #events: EventFileWriter;
  readonly #onSummary: FileWriterOptions['onSummary'];

  constructor(logdir: string, given: OrNull<FileWriterOptions> = {}) {
    const options = withoutNull<FileWriterOptions>(given);
    this.logdir = logdir;
    this.#onSummary = options.onSummary;
    this.#events = new EventFileWriter({
      directory: logdir,
      suffix: options.filenameSuffix,
      flushMs: options.flushSecs === undefined ? undefined : options.flushSecs * 1000,
      now: options.now,
    });
    if (options.graph) this.addGraph(options.graph);
  }

  /** The event file. */
  get path(): string {
    return this.#events.path;
  }

  /** Adds the result of a summary op: the fetched tensor, its bytes, or a Summary. */
  addSummary(summary: Tensor | Uint8Array | Summary, step: SummaryStep): void {
    const value = summary instanceof Tensor || summary instanceof Uint8Array ? parse(summary) : summary;
    this.#write({ what: { case: 'summary', value } }, step);
    this.#onSummary?.(value, Number(step));
  }

  /** Adds a number that was computed outside of the graph. */
  addScalar(tag: string, value: number, step: SummaryStep): void {
    const one = { tag: cleanTag(tag), value: { case: 'simpleValue' as const, value } };
    this.#write({ what: { case: 'summary', value: { value: [one] } } }, step);
  }

  addGraph(graph: Graph, step?: SummaryStep): void {
    this.#write({ what: { case: 'graphDef', value: graph.toGraphDefBytes() } }, step);
  }

  addMetaGraph(meta: MetaGraphDef, step?: SummaryStep): void {
    this.#write({ what: { case: 'metaGraphDef', value: toBinary(MetaGraphDefSchema, meta) } }, step);
  }

  /** Marks the start or end of a training run. At a start, TensorBoard drops later steps of earlier runs. */
  addSessionLog(
    status: SessionStatus,
    step: SummaryStep,
    details: { readonly checkpointPath?: string } = {},
  ): void {
    this.#write(
      {
        what: {
          case: 'sessionLog',
          value: { status: STATUSES[status], checkpointPath: details.checkpointPath ?? '' },
        },
      },
      step,
    );
  }

  /** Adds the trace of one run under a tag of its own. */
  addRunMetadata(metadata: RunMetadata, tag: string, step: SummaryStep): void {
    const runMetadata = toBinary(RunMetadataSchema, metadata);
    this.#write({ what: { case: 'taggedRunMetadata', value: { tag, runMetadata } } }, step);
  }

  #write(event: EventInput, step: SummaryStep | undefined): void {
    this.#events.write(step === undefined ? event : { ...event, step: toBigInt(step) });
  }

  /** Whether nothing can be added any more. */
  get isClosed(): boolean {
    return this.#events.isClosed;
  }

  /** Resolves when all added events are in the file; rejects if a write failed. */
  flush(): Promise<void> {
    return this.#events.flush();
  }

  close(): Promise<void> {
    return this.#events.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

function parse(summary: Tensor | Uint8Array): Summary {
  if (summary instanceof Tensor && (summary.dtype !== 'string' || summary.size !== 1)) {
    throw invalid(`${summary} is not a summary: a summary op returns one string`);
  }
  const bytes = summary instanceof Tensor ? (summary.bytes()[0] as Uint8Array) : summary;
  try {
    return fromBinary(SummarySchema, bytes);
  } catch (cause) {
    throw new ShoalError('SHOAL_CORRUPT', `Cannot parse ${bytes.length} bytes as a Summary`, {
      hint: 'Pass the value that a run fetched from tf.summary.scalar, merge or mergeAll.',
      cause,
    });
  }
}

function toBigInt(step: SummaryStep): bigint {
  if (typeof step === 'bigint') return step;
  if (!Number.isSafeInteger(step)) throw invalid(`A step must be an integer, got ${step}`);
  return BigInt(step);
}
