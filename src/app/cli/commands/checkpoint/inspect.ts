/** `shoal checkpoint inspect`: the tensors and files of a checkpoint, or the values of one tensor. */

import { bytes, count, moment, table } from '../../../../base/text/format.js';
import type { Manifest } from '../../../../distributed/checkpoint/format/manifest.js';
import { healthOf } from '../../../../distributed/checkpoint/reading/catalog.js';
import { VerifiedReader } from '../../../../distributed/checkpoint/reading/verified-reader.js';
import type { BundlePiece, BundleTensor } from '../../../../tensorflow/formats/tensor-bundle/bundle-index.js';
import { BundleReader } from '../../../../tensorflow/formats/tensor-bundle/bundle-reader.js';
import { boxOf, formatSlice } from '../../../../tensorflow/formats/tensor-bundle/slice.js';
import { dtypeFromNumber } from '../../../../tensorflow/tensor/dtype.js';
import { chooseOne } from '../../checkpoint/choose.js';
import { type Terminal, withStore, withTerminal } from '../../checkpoint/command.js';
import { isPath, type LocalCheckpoint, withLocalCheckpoint } from '../../checkpoint/local-checkpoint.js';
import { firstValues, showValue, toJson } from '../../checkpoint/tensor-values.js';
import type { ShoalContext } from '../../context.js';
import type { InspectFlags } from './command.js';

export async function runInspect(this: ShoalContext, flags: InspectFlags, name: string): Promise<void> {
  if (isPath(name)) {
    await withTerminal(this, flags, (terminal) =>
      withLocalCheckpoint(name, flags, (checkpoint) => inspectLocal(terminal, flags, checkpoint)),
    );
    return;
  }
  await withStore(this, flags, async (work) => {
    const { open, signal, onNotice } = work;
    const { job, manifest } = await chooseOne(open, name, { signal, onNotice });
    const reader = new VerifiedReader(open.store, manifest, { namespace: job, signal, onDamage: onNotice });
    const bundle = await BundleReader.open(reader, manifest.prefix);
    if (flags.tensor !== undefined) return showTensor(work, bundle, flags.tensor, flags.first);
    const { files } = await healthOf(open.store, job, manifest, { signal });
    const tensors = [...bundle.index.tensors.values()].map(describeTensor);
    const found = {
      ...about(job, manifest),
      tensors,
      files: files.map(({ entry, places }) => ({
        file: entry.file,
        bytes: entry.size,
        crc32c: entry.crc32c,
        savedAt: entry.places,
        places: places.map((place) => ({ place, host: open.places.find((one) => one.place === place)?.at })),
      })),
    };
    work.answer(found, () => [
      `${manifest.prefix} · step ${manifest.step} · saved ${moment(manifest.savedAtMs)} (${manifest.consistency})` +
        ` · ${count(manifest.shards, 'shard')} · ${count(tensors.length, 'tensor')}${job === '' ? '' : ` · job ${job}`}`,
      '',
      tensorTable(tensors),
      '',
      table(
        ['file', 'size', 'copies'],
        files.map(({ entry, places }) => [
          entry.file,
          bytes(entry.size),
          places.map((place) => open.describe(place)).join(', ') || 'none reachable',
        ]),
      ),
    ]);
  });
}

/** A checkpoint on the local disk, without a store. */
async function inspectLocal(
  terminal: Terminal,
  { tensor, first }: InspectFlags,
  { path, bundle, files }: LocalCheckpoint,
): Promise<void> {
  if (tensor !== undefined) return showTensor(terminal, bundle, tensor, first);
  const tensors = [...bundle.index.tensors.values()].map(describeTensor);
  const { shards } = bundle.index;
  terminal.answer({ path, shards, tensors, files }, () => [
    `${path} · ${count(shards, 'shard')} · ${count(tensors.length, 'tensor')}`,
    '',
    tensorTable(tensors),
    '',
    table(
      ['file', 'size'],
      files.map(({ file, bytes: size }) => [file, size === undefined ? 'missing' : bytes(size)]),
    ),
  ]);
}

function tensorTable(tensors: readonly ReturnType<typeof describeTensor>[]): string {
  return table(
    ['tensor', 'dtype', 'shape', 'slices', 'shards', 'size'],
    tensors.map((one) => [
      one.name,
      one.dtype,
      `[${one.shape.join(', ')}]`,
      one.slices.length === 0 ? 'complete' : one.slices.map(({ slice }) => slice).join(' '),
      one.shards.join(' '),
      bytes(one.bytes),
    ]),
  );
}

function about(job: string, manifest: Manifest) {
  const { prefix: name, attempt, sequence, step, savedAtMs, consistency, shards } = manifest;
  const hasInput = manifest.inputFile !== undefined || manifest.input != null;
  return { job, name, attempt, sequence, step, savedAtMs, consistency, shards, hasInput };
}

function describeTensor({ name, dtype, shape, ...tensor }: BundleTensor) {
  const start = ({ slice }: BundlePiece) => boxOf(shape, slice).starts;
  const pieces = [...tensor.pieces].sort((a, b) => compare(start(a), start(b)));
  return {
    name,
    dtype: dtypeFromNumber(dtype),
    shape,
    bytes: pieces.reduce((sum, { size }) => sum + size, 0),
    shards: [...new Set(pieces.map(({ shard }) => shard))].sort((a, b) => a - b),
    slices: pieces.flatMap(({ slice, shard, size }) =>
      slice ? [{ slice: formatSlice(slice), shard, bytes: size }] : [],
    ),
  };
}

/** Compares lexicographically. */
function compare(a: readonly number[], b: readonly number[]): number {
  const axis = a.findIndex((value, i) => value !== b[i]);
  return axis < 0 ? 0 : a[axis]! - b[axis]!;
}

async function showTensor({ answer, signal }: Terminal, bundle: BundleReader, name: string, first: number) {
  const tensor = bundle.tensor(name);
  const { dtype, shape } = describeTensor(tensor);
  const values = await firstValues(bundle, tensor, first, signal);
  const total = shape.reduce((product, size) => product * size, 1);
  const rest = total > values.length ? ` … (${total} in all)` : '';
  answer({ name, dtype, shape, values: values.map(toJson) }, () => [
    `${name} ${dtype} [${shape.join(', ')}]`,
    `${values.map((value) => showValue(value, dtype === 'float32')).join(' ')}${rest}`,
  ]);
}
