/**
 * Loads SavedModels and calls their signatures. TensorFlow itself restores the variables, finds the assets and runs the
 * init op, for models of TensorFlow 1 as well as of TensorFlow 2 and Keras, except for large ones
 * (load-large-model.ts). The signatures are read from the files.
 * Each model has its own graph and session, so any number of models and versions can be loaded at the same time.
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
import { RESERVED_SIGNATURES, tags as TAGS } from '../signatures/constants.js';
import {
  type Calls,
  makeSignature,
  type Signature,
  type Signatures,
  type SignatureTypes,
} from '../signatures/signature.js';
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

const LOAD_TIMEOUT_MS = 10 * 60_000;
const CLOSE_TIMEOUT_MS = 60_000;

/** `S` names the signatures with their inputs and outputs, for TypeScript to check calls; default: any. */
export async function loadSavedModel<S extends SignatureTypes = SignatureTypes>(
  path: string,
  options: LoadOptions = {},
): Promise<LoadedModel<S>> {
  const directory = resolve(path);
  const { tags = [TAGS.serving], verify, signal, config, timeoutMs = LOAD_TIMEOUT_MS } = options;
  const model = await readSavedModel(directory);
  const meta = model && chooseMetaGraph(model, tags, directory);
  if (meta) await checkFiles(directory, meta, { verify, signal });
  const limits = { timeoutMs, signal, config };
  const large = meta && (await loadLargeModel(directory, meta, limits));
  if (large) return LoadedModel.open<S>(directory, tags, large, meta);
  const graph = new Graph();
  try {
    const { session, metaGraphDef } = await Session.load(directory, tags, { graph, ...limits });
    return await LoadedModel.open<S>(
      directory,
      tags,
      session,
      meta ?? fromBinary(MetaGraphDefSchema, metaGraphDef),
    );
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

export class LoadedModel<S extends SignatureTypes = SignatureTypes> implements AsyncDisposable {
  readonly directory: string;
  readonly tags: readonly string[];
  readonly signatures: Signatures<S>;
  readonly #session: Session;
  readonly #running = new Set<Promise<unknown>>();
  #closing: Promise<void> | undefined;

  private constructor(
    directory: string,
    tags: readonly string[],
    session: Session,
    defs: Readonly<Record<string, SignatureDef>>,
    defaults: ReadonlyMap<SignatureDef, ReadonlyMap<string, Tensor>>,
  ) {
    this.directory = directory;
    this.tags = tags;
    this.#session = session;
    const calls: Calls = { session, track: (run) => this.#track(run) };
    const signatures: Record<string, Signature> = {};
    for (const [name, def] of Object.entries(defs)) {
      if (RESERVED_SIGNATURES.has(name)) continue;
      signatures[name] = makeSignature(calls, name, def, defaults.get(def));
    }
    this.signatures = namedSignatures(signatures, directory) as unknown as Signatures<S>;
  }

  /** Made by `loadSavedModel`. */
  static async open<S extends SignatureTypes>(
    directory: string,
    tags: readonly string[],
    session: Session,
    meta: MetaGraphDef,
  ): Promise<LoadedModel<S>> {
    try {
      await restoreMissingValues(session, directory, meta);
      const defaults = await defaultInputs(session, meta);
      return new LoadedModel<S>(directory, tags, session, meta.signatureDef, defaults);
    } catch (error) {
      await session.close();
      session.graph.dispose();
      throw error;
    }
  }

  get closed(): boolean {
    return this.#closing !== undefined;
  }

  /** Waits for running calls, then frees the model. Calls that exceed `timeoutMs` (default: 60 s) are cancelled. */
  close(options: { readonly timeoutMs?: number } = {}): Promise<void> {
    this.#closing ??= this.#close(options.timeoutMs ?? CLOSE_TIMEOUT_MS);
    return this.#closing;
  }

  async #close(timeoutMs: number): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((settle) => {
      timer = setTimeout(settle, timeoutMs);
    });
    await Promise.race([Promise.allSettled(this.#running), late]);
    clearTimeout(timer);
    await this.#session.close({ timeoutMs });
    this.#session.graph.dispose();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #track<T>(run: () => Promise<T>): Promise<T> {
    if (this.#closing)
      return Promise.reject(new ShoalError('SHOAL_DISPOSED', `The model ${this.directory} was closed`));
    const running = run();
    this.#running.add(running);
    const ended = () => this.#running.delete(running);
    running.then(ended, ended);
    return running;
  }
}

/** An unknown signature is an error that names the known ones, not a call of undefined. */
function namedSignatures(
  signatures: Record<string, Signature>,
  directory: string,
): Record<string, Signature> {
  return new Proxy(signatures, {
    get(target, key, receiver) {
      if (typeof key !== 'string' || key in target) return Reflect.get(target, key, receiver);
      // Read by `await` and by printers on every object.
      if (key === 'then' || key === 'toJSON') return undefined;
      throw new ShoalError('SHOAL_NOT_FOUND', `${directory} has no signature '${key}'`, {
        hint: `It has ${Object.keys(target).join(', ') || 'none'}.`,
      });
    },
  });
}

/** Default values of optional inputs. TensorFlow decodes them: each becomes a constant that is run once. */
async function defaultInputs(
  session: Session,
  meta: MetaGraphDef,
): Promise<ReadonlyMap<SignatureDef, ReadonlyMap<string, Tensor>>> {
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
