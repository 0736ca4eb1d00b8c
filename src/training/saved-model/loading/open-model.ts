/**
 * Opens a SavedModel: a session in which its variables have their values. TensorFlow restores them, except those of
 * large models (load-large-model.ts).
 */
import { resolve } from 'node:path';
import { create, fromBinary, type MessageInitShape } from '@bufbuild/protobuf';
import { isShoalError, ShoalError } from '../../../base/errors/errors.js';
import type { ConfigProtoSchema } from '../../../base/proto/generated/config_pb.js';
import { GraphDefSchema } from '../../../base/proto/generated/graph_pb.js';
import {
  type MetaGraphDef,
  MetaGraphDefSchema,
  type SignatureDef,
} from '../../../base/proto/generated/model_pb.js';
import { Graph } from '../../../tensorflow/graph/graph.js';
import { Session } from '../../../tensorflow/session/session.js';
import type { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { tags as TAGS } from '../signatures/constants.js';
import { checkFiles, damagedExport } from './check-files.js';
import { loadLargeModel } from './load-large-model.js';
import { restoreMissingValues } from './missing-values.js';
import { chooseMetaGraph, readSavedModel } from './read-model.js';

export interface LoadOptions {
  /** The tags of the graph to load; default: `['serve']`. */
  readonly tags?: readonly string[];
  /** Reads all variables and compares their checksums before TensorFlow restores them. Default: false. */
  readonly verify?: boolean;
  /** The configuration of the session; default: TensorFlow's. */
  readonly config?: MessageInitShape<typeof ConfigProtoSchema>;
  /** How long the load may take; default: 10 minutes. */
  readonly timeoutMs?: number;
  /** Cancels the load; default: none. */
  readonly signal?: AbortSignal;
}

export interface OpenModelOptions extends LoadOptions {
  /** Reads large variables on a thread of low priority: the process answers requests meanwhile. Default: false. */
  readonly inBackground?: boolean;
}

/** Values of optional inputs, by input, of each signature that has some. */
export type DefaultInputs = ReadonlyMap<SignatureDef, ReadonlyMap<string, Tensor>>;

export interface OpenModel {
  readonly directory: string;
  readonly tags: readonly string[];
  /** Owned by the caller, with its graph. */
  readonly session: Session;
  readonly meta: MetaGraphDef;
  readonly defaults: DefaultInputs;
}

const LOAD_TIMEOUT_MS = 10 * 60_000;

export async function openModel(path: string, options: OpenModelOptions = {}): Promise<OpenModel> {
  const directory = resolve(path);
  const { tags = [TAGS.serving] } = options;
  const { session, meta } = await openSession(directory, tags, options);
  return completeModel(directory, tags, session, meta);
}

/** Completes a model whose session is open; takes ownership of the session. */
export async function completeModel(
  directory: string,
  tags: readonly string[],
  session: Session,
  meta: MetaGraphDef,
): Promise<OpenModel> {
  try {
    await restoreMissingValues(session, directory, meta);
    return { directory, tags, session, meta, defaults: await defaultInputs(session, meta) };
  } catch (error) {
    await session.close();
    session.graph.dispose();
    throw error;
  }
}

async function openSession(
  directory: string,
  tags: readonly string[],
  options: OpenModelOptions,
): Promise<{ readonly session: Session; readonly meta: MetaGraphDef }> {
  const { verify, signal, config, timeoutMs = LOAD_TIMEOUT_MS, inBackground = false } = options;
  const model = await readSavedModel(directory);
  const meta = model && chooseMetaGraph(model, tags, directory);
  if (meta) await checkFiles(directory, meta, { verify, signal });
  const limits = { timeoutMs, ...(signal ? { signal } : {}), ...(config ? { config } : {}) };
  const large = meta && (await loadLargeModel(directory, meta, { ...limits, inBackground }));
  if (large) return { session: large, meta };
  const graph = new Graph();
  try {
    const { session, metaGraphDef } = await Session.load(directory, tags, { graph, ...limits });
    return { session, meta: meta ?? fromBinary(MetaGraphDefSchema, metaGraphDef) };
  } catch (error) {
    // A cancelled load may still write to the graph, which is then freed when nothing refers to it.
    if (
      isShoalError(error) &&
      error.code.startsWith('SHOAL_TF_') &&
      !isShoalError(error, 'SHOAL_TF_DEADLINE_EXCEEDED')
    )
      graph.dispose();
    throw await explain(error, directory, meta, signal);
  }
}

/** TensorFlow's errors of damaged files name neither the file nor the model. */
async function explain(
  error: unknown,
  directory: string,
  meta: MetaGraphDef | undefined,
  signal?: AbortSignal,
) {
  if (!(error instanceof ShoalError) || !error.code.startsWith('SHOAL_TF_')) return error;
  const isDamage = ['SHOAL_TF_DATA_LOSS', 'SHOAL_TF_OUT_OF_RANGE', 'SHOAL_TF_NOT_FOUND'].includes(error.code);
  if (meta && isDamage) {
    try {
      await checkFiles(directory, meta, { verify: true, signal });
    } catch (found) {
      return found;
    }
  }
  return error.code === 'SHOAL_TF_DATA_LOSS'
    ? damagedExport(directory, `cannot be loaded: ${error.message}`, error)
    : new ShoalError(error.code, `${directory} cannot be loaded: ${error.message}`, { cause: error });
}

/** Default values of optional inputs. TensorFlow decodes them: each becomes a constant that is run once. */
async function defaultInputs(session: Session, meta: MetaGraphDef): Promise<DefaultInputs> {
  const result = new Map<SignatureDef, ReadonlyMap<string, Tensor>>();
  for (const def of Object.values(meta.signatureDef)) {
    const names = Object.keys(def.defaults);
    if (names.length === 0) continue;
    const node = names.map((name, i) => ({
      name: `input_${i}`,
      op: 'Const',
      attr: {
        dtype: { value: { case: 'type' as const, value: def.defaults[name]!.dtype } },
        value: { value: { case: 'tensor' as const, value: def.defaults[name]! } },
      },
    }));
    const { outputs } = session.graph.importGraphDef(create(GraphDefSchema, { node }), {
      prefix: `shoal_default_inputs_${result.size}`,
      returnOutputs: node.map(({ name }) => `${name}:0`),
    });
    const values = await session.run(outputs);
    result.set(def, new Map(names.map((name, i) => [name, values[i] as Tensor])));
  }
  return result;
}
