/** What a SavedModel is, without loading it: its graphs by tags, their signatures, its variables and files. */
import { readdir, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { ShoalError } from '../../../base/errors/errors.js';
import type { MetaGraphDef } from '../../../base/proto/generated/model_pb.js';
import { DirectoryReader } from '../../../tensorflow/formats/range-reader.js';
import { RESERVED_SIGNATURES, SAVED_MODEL_TEXT_FILE, VARIABLES_DIRECTORY } from '../signatures/constants.js';
import { specOf, type TensorSpec } from '../signatures/signature-values.js';
import { assetsOf, openVariables } from './check-files.js';
import { OBJECT_GRAPH_KEY } from './missing-values.js';
import { readSavedModel, tagsOf } from './read-model.js';

export interface SignatureDescription {
  readonly name: string;
  readonly methodName: string;
  readonly inputs: Readonly<Record<string, TensorSpec>>;
  readonly outputs: Readonly<Record<string, TensorSpec>>;
}

export interface GraphDescription {
  readonly tags: readonly string[];
  readonly tensorflowVersion: string;
  readonly nodes: number;
  readonly functions: number;
  readonly signatures: readonly SignatureDescription[];
  readonly assets: readonly string[];
}

export interface SavedModelDescription {
  readonly directory: string;
  readonly graphs: readonly GraphDescription[];
  readonly variables: { readonly count: number; readonly bytes: number; readonly shards: number };
  readonly files: readonly { readonly file: string; readonly bytes: number }[];
}

export async function describeSavedModel(path: string): Promise<SavedModelDescription> {
  const directory = resolve(path);
  const model = await readSavedModel(directory);
  if (!model) {
    throw new ShoalError('SHOAL_UNSUPPORTED', `${join(directory, SAVED_MODEL_TEXT_FILE)} is in text form`, {
      hint: 'Models in text form can be loaded, but not described without loading.',
    });
  }
  await using files = new DirectoryReader(join(directory, VARIABLES_DIRECTORY));
  const bundle = await openVariables(files, directory, model.metaGraphs[0] as MetaGraphDef);
  // TensorFlow 2 keeps the structure of its objects among the variables.
  const tensors = [...(bundle?.index.tensors.values() ?? [])].filter(({ name }) => name !== OBJECT_GRAPH_KEY);
  const bytes = tensors.reduce((sum, { pieces }) => sum + pieces.reduce((all, { size }) => all + size, 0), 0);
  return {
    directory,
    graphs: model.metaGraphs.map(describeGraph),
    variables: { count: tensors.length, bytes, shards: bundle?.index.shards ?? 0 },
    files: await filesOf(directory),
  };
}

function describeGraph(meta: MetaGraphDef): GraphDescription {
  const specs = (infos: MetaGraphDef['signatureDef'][string]['inputs']) =>
    Object.fromEntries(Object.entries(infos).map(([name, info]) => [name, specOf(info)]));
  return {
    tags: tagsOf(meta),
    tensorflowVersion: meta.metaInfoDef?.tensorflowVersion ?? '',
    nodes: meta.graphDef?.node.length ?? 0,
    functions: meta.graphDef?.library?.function.length ?? 0,
    signatures: Object.entries(meta.signatureDef)
      .filter(([name]) => !RESERVED_SIGNATURES.has(name))
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, { methodName, inputs, outputs }]) => ({
        name,
        methodName,
        inputs: specs(inputs),
        outputs: specs(outputs),
      })),
    assets: assetsOf(meta).map(({ filename }) => filename),
  };
}

async function filesOf(directory: string): Promise<{ file: string; bytes: number }[]> {
  const names = await readdir(directory, { recursive: true });
  const found = await Promise.all(
    names.map(async (file) => ({ file, about: await stat(join(directory, file)) })),
  );
  return found
    .filter(({ about }) => about.isFile())
    .map(({ file, about }) => ({ file, bytes: about.size }))
    .sort((a, b) => (a.file < b.file ? -1 : 1));
}
