/** Files that an exported graph reads: found by the constants that hold their paths, copied under `assets/`. */

import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { basename, extname, join, resolve } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { invalid, messageOf, ShoalError } from '../../../base/errors/errors.js';
import { AttrValueSchema, type NodeDef } from '../../../base/proto/generated/graph_pb.js';
import { type AssetFileDef, AssetFileDefSchema } from '../../../base/proto/generated/model_pb.js';
import type { Output } from '../../../tensorflow/graph/operation.js';
import { ASSETS_DIRECTORY } from '../signatures/constants.js';
import { writeFlushed } from '../variables/variable-source.js';

export interface Asset {
  /** The file on this disk. */
  readonly source: string;
  /** Its name under `assets/`. */
  readonly file: string;
}

export class Assets {
  readonly #byPath = new Map<string, Asset>();

  get all(): readonly Asset[] {
    return [...this.#byPath.values()];
  }

  /** The asset of a constant that holds a path. The same file is copied once; names that clash get a number. */
  add(tensor: Output, node: NodeDef | undefined): AssetFileDef {
    const source = resolve(pathIn(tensor, node));
    const asset = this.#byPath.get(source) ?? { source, file: this.#fileName(source) };
    this.#byPath.set(source, asset);
    return create(AssetFileDefSchema, {
      filename: asset.file,
      tensorInfo: { encoding: { case: 'name', value: tensor.name } },
    });
  }

  #fileName(source: string): string {
    const taken = new Set(this.all.map(({ file }) => file));
    const extension = extname(source);
    const stem = basename(source, extension);
    let name = basename(source);
    for (let i = 1; taken.has(name); i++) name = `${stem}_${i}${extension}`;
    return name;
  }

  async check(): Promise<void> {
    for (const { source } of this.all) {
      const found = await stat(source).catch((cause: unknown) => {
        throw new ShoalError('SHOAL_NOT_FOUND', `The asset ${source} cannot be read: ${messageOf(cause)}`, {
          cause,
        });
      });
      if (!found.isFile()) throw invalid(`The asset ${source} is not a file`);
    }
  }

  async copyTo(directory: string, signal?: AbortSignal): Promise<void> {
    for (const { source, file } of this.all)
      await writeFlushed(join(directory, file), chunksOf(source), signal);
  }
}

/** Opened when it is read. */
async function* chunksOf(path: string): AsyncGenerator<Uint8Array> {
  yield* createReadStream(path);
}

function pathIn(tensor: Output, node: NodeDef | undefined): string {
  const value = node?.op === 'Const' ? node.attr.value?.value : undefined;
  const text = value?.case === 'tensor' ? value.value.stringVal[0] : undefined;
  if (!text || text.length === 0) {
    throw invalid(`The asset ${tensor.name} must be a constant that holds a path`, { op: tensor.op.name });
  }
  return Buffer.from(text).toString();
}

/** The constant keeps a path within the export: loaders feed the real one, and no local path is published. */
export function relocate(node: NodeDef, file: string): void {
  const value = node.attr.value?.value;
  if (value?.case !== 'tensor') return;
  const stringVal = [Buffer.from(`${ASSETS_DIRECTORY}/${file}`)];
  node.attr.value = create(AttrValueSchema, {
    value: { case: 'tensor', value: { ...value.value, stringVal, tensorContent: new Uint8Array(0) } },
  });
}
