/** A checkpoint as the source of an export: what the export needs of it is copied into a single data file. */
import { join } from 'node:path';
import { invalid } from '../../../base/errors/errors.js';
import type { BundlePiece, BundleTensor } from '../../../tensorflow/formats/tensor-bundle/bundle-index.js';
import type { BundleReader } from '../../../tensorflow/formats/tensor-bundle/bundle-reader.js';
import { writeIndexFile } from '../../../tensorflow/formats/tensor-bundle/index-file.js';
import { dataFile, indexFile } from '../../../tensorflow/formats/tensor-bundle/naming.js';
import { dtypeNumber } from '../../../tensorflow/tensor/dtype.js';
import { formatShape } from '../../../tensorflow/tensor/shape.js';
import type { NamedVariable } from './trained-variables.js';
import { type VariableSource, writeFlushed } from './variable-source.js';

export interface CheckpointVariablesOptions {
  readonly onProgress?: (done: number, total: number) => void;
}

/** Variables are matched by their names. Memory does not grow with the checkpoint. */
export function checkpointVariables(
  bundle: BundleReader,
  { onProgress }: CheckpointVariablesOptions = {},
): VariableSource {
  return {
    async write({ variables, directory, prefix, signal }) {
      const needed = tensorsOf(bundle, variables);
      const all = needed.flatMap((tensor) => tensor.pieces.map((piece) => ({ tensor, piece })));
      const total = all.reduce((sum, { piece }) => sum + piece.size, 0);
      let done = 0;
      const copied = new Map<BundlePiece, BundlePiece>();
      const bytes = async function* () {
        for (const { tensor, piece } of all) {
          copied.set(piece, { ...piece, shard: 0, offset: done });
          for await (const chunk of bundle.pieceBytes(tensor, piece)) {
            yield chunk;
            done += chunk.length;
            onProgress?.(done, total);
          }
        }
      };
      await writeFlushed(join(directory, dataFile(prefix, 0, 1)), bytes(), signal);
      const tensors = needed.map((tensor) => ({
        ...tensor,
        pieces: tensor.pieces.map((piece) => copied.get(piece) as BundlePiece),
      }));
      const index = { shards: 1, tensors: new Map(tensors.map((tensor) => [tensor.name, tensor])) };
      await writeFlushed(join(directory, indexFile(prefix)), [writeIndexFile(index)], signal);
    },
  };
}

function tensorsOf(bundle: BundleReader, variables: readonly NamedVariable[]): readonly BundleTensor[] {
  const needed = new Map<string, BundleTensor>();
  for (const { key, variable } of variables) {
    const tensor = bundle.tensor(key);
    const shape = variable.sliceInfo?.fullShape ?? variable.fullShape;
    const isSame = shape.length === tensor.shape.length && shape.every((size, i) => size === tensor.shape[i]);
    if (!isSame || tensor.dtype !== dtypeNumber(variable.dtype)) {
      throw invalid(
        `The variable '${key}' is ${variable.dtype} ${formatShape(shape)} in the graph that is exported, ` +
          `but the checkpoint ${bundle.prefix} has it with the shape ${formatShape(tensor.shape)}`,
        { hint: 'Export with the program that trained it.' },
      );
    }
    needed.set(key, tensor);
  }
  return [...needed.values()];
}
