/**
 * Summary ops: each returns a serialized Summary, which a FileWriter writes to an event file for TensorBoard.
 * They are added to the collection of summaries, which `mergeAll` merges.
 */

import { create, toBinary } from '@bufbuild/protobuf';
import { invalid } from '../../base/errors/errors.js';
import { type OrNull, withoutNull } from '../../base/errors/null-options.js';
import { SummaryMetadataSchema } from '../../base/proto/generated/event_pb.js';
import { currentGraph, type Graph } from '../graph/graph.js';
import type { Output } from '../graph/operation.js';
import { activeScope } from '../graph/scope.js';
import { asOutput, type Operand } from '../ops/build.js';
import { constant } from '../ops/creation.js';
import * as raw from '../ops/generated/index.js';
import { Tensor } from '../tensor/tensor.js';
import { GraphKeys } from '../variables/collections.js';

export interface SummaryOptions {
  /** The collections to add the summary to. Default: the collection of `mergeAll`. */
  readonly collections?: readonly string[];
  /** A prefix of the tag, by which TensorBoard groups; default: none. */
  readonly family?: string;
}

/** One number per step. */
export function scalar(name: string, value: Operand, options: OrNull<SummaryOptions> = {}): Output<'string'> {
  return summary(name, value, options, (tag, x, exact) => {
    if (x.rank !== null && x.rank !== 0) {
      throw invalid(`A scalar summary takes one number; ${x} has shape [${x.shape?.join(', ')}]`, {
        hint: 'Take its mean, or use tf.summary.histogram.',
      });
    }
    return raw.scalarSummary(tag, x, { name: exact });
  });
}

/** The distribution of the values, per step. */
export function histogram(
  name: string,
  values: Operand,
  options: OrNull<SummaryOptions> = {},
): Output<'string'> {
  return summary(name, values, options, (tag, x, exact) => raw.histogramSummary(tag, x, { name: exact }));
}

export interface ImageSummaryOptions extends SummaryOptions {
  /** The maximum number of images per batch. Default: 3. */
  readonly maxOutputs?: number;
}

/** Images [batch, height, width, channels] with 1, 3 or 4 channels; uint8 unchanged, floats scaled to [0, 255]. */
export function image(
  name: string,
  images: Operand,
  given: OrNull<ImageSummaryOptions> = {},
): Output<'string'> {
  const options = withoutNull<ImageSummaryOptions>(given);
  const { maxOutputs = 3, ...rest } = options;
  return summary(name, images, rest, (tag, x, exact) => {
    if (x.rank !== null && x.rank !== 4) {
      throw invalid(`An image summary takes [batch, height, width, channels], not ${x}`);
    }
    return raw.imageSummary(tag, x, {
      maxImages: maxOutputs,
      // The colour of pixels that are not finite.
      badColor: Tensor.of(Uint8Array.of(255, 0, 0, 255)),
      name: exact,
    });
  });
}

/** Strings, which TensorBoard shows as Markdown; a vector or matrix of them as a table. */
export function text(name: string, strings: Operand, options: OrNull<SummaryOptions> = {}): Output<'string'> {
  return summary(name, strings, options, (tag, x, exact) => {
    if (x.dtype !== 'string') throw invalid(`A text summary takes strings; ${x} is ${x.dtype}`);
    const metadata = create(SummaryMetadataSchema, { pluginData: { pluginName: 'text' } });
    const bytes = Tensor.of([toBinary(SummaryMetadataSchema, metadata)], { dtype: 'string' }).reshape([]);
    return raw.tensorSummaryV2(tag, x, bytes, { name: exact });
  });
}

/** Merges several summaries into one, added to `collections`; default: none. */
export function merge(
  summaries: readonly Operand<'string'>[],
  given: OrNull<{ readonly collections?: readonly string[]; readonly name?: string }> = {},
): Output<'string'> {
  const options = withoutNull<{ readonly collections?: readonly string[]; readonly name?: string }>(given);
  if (summaries.length === 0) throw invalid('There are no summaries to merge');
  const merged = raw.mergeSummary(summaries, { name: options.name ?? 'Merge/MergeSummary' });
  for (const collection of options.collections ?? []) merged.graph.addToCollection(collection, merged);
  return merged;
}

/** Merges all summaries of the collection; undefined if it is empty. */
export function mergeAll(
  collection: string = GraphKeys.summaries,
  graph: Graph = currentGraph(),
): Output<'string'> | undefined {
  const summaries = graph.getCollection<Output<'string'>>(collection);
  return summaries.length === 0 ? undefined : graph.asDefault(() => merge(summaries));
}

/** TensorFlow's rule for tags: replaces invalid characters with underscores, removes leading slashes. */
export function cleanTag(name: string): string {
  const cleaned = name.replace(/[^-/\w.]/g, '_').replace(/^\/+/, '');
  if (cleaned === '') throw invalid(`A summary needs a name; '${name}' has no valid tag characters`);
  return cleaned;
}

/** An op with the name of its tag: the summary's name, prefixed by the current name scopes. */
function summary(
  name: string,
  value: Operand,
  given: OrNull<SummaryOptions>,
  make: (tag: Output<'string'>, x: Output, exactName: string) => Output<'string'>,
): Output<'string'> {
  const options = withoutNull<SummaryOptions>(given);
  const x = asOutput(value);
  const graph = activeScope()?.graph ?? x.graph;
  const family = options.family === undefined ? '' : `${cleanTag(options.family)}/`;
  const made = graph.nameScope(`${family}${cleanTag(name)}`, (prefix) => {
    const tag = constant(`${family}${prefix.slice(0, -1)}`, { name: 'tags' }) as Output<'string'>;
    return make(tag, x, prefix);
  });
  for (const collection of options.collections ?? [GraphKeys.summaries]) {
    graph.addToCollection(collection, made);
  }
  return made;
}
