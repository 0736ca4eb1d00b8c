/**
 * Loads SavedModels and calls their signatures. TensorFlow itself restores the variables, finds the assets and runs the
 * init op, for models of TensorFlow 1 as well as of TensorFlow 2 and Keras, except for large ones
 * (load-large-model.ts). The signatures are read from the files.
 * Each model has its own graph and session, so any number of models and versions can be loaded at the same time.
 */

import { ShoalError } from '../../../base/errors/errors.js';
import type { MetaGraphDef } from '../../../base/proto/generated/model_pb.js';
import type { Session } from '../../../tensorflow/session/session.js';
import { RESERVED_SIGNATURES } from '../signatures/constants.js';
import {
  type Calls,
  makeSignature,
  type Signature,
  type Signatures,
  type SignatureTypes,
} from '../signatures/signature.js';
import { completeModel, type LoadOptions, type OpenModel, openModel } from './open-model.js';

export type { LoadOptions } from './open-model.js';

const CLOSE_TIMEOUT_MS = 60_000;

/** `S` names the signatures with their inputs and outputs, for TypeScript to check calls; default: any. */
export async function loadSavedModel<S extends SignatureTypes = SignatureTypes>(
  path: string,
  options: LoadOptions = {},
): Promise<LoadedModel<S>> {
  return new LoadedModel<S>(await openModel(path, options));
}

export class LoadedModel<S extends SignatureTypes = SignatureTypes> implements AsyncDisposable {
  readonly directory: string;
  readonly tags: readonly string[];
  readonly signatures: Signatures<S>;
  readonly #session: Session;
  readonly #running = new Set<Promise<unknown>>();
  #closing: Promise<void> | undefined;

  /** Made by `loadSavedModel`. @internal */
  constructor({ directory, tags, session, meta, defaults }: OpenModel) {
    this.directory = directory;
    this.tags = tags;
    this.#session = session;
    const calls: Calls = { session, track: (run) => this.#track(run) };
    const signatures: Record<string, Signature> = {};
    for (const [name, def] of Object.entries(meta.signatureDef)) {
      if (RESERVED_SIGNATURES.has(name)) continue;
      signatures[name] = makeSignature(calls, name, def, defaults.get(def));
    }
    this.signatures = namedSignatures(signatures, directory) as unknown as Signatures<S>;
  }

  /** Over a session that is open. */
  static async open<S extends SignatureTypes>(
    directory: string,
    tags: readonly string[],
    session: Session,
    meta: MetaGraphDef,
  ): Promise<LoadedModel<S>> {
    return new LoadedModel<S>(await completeModel(directory, tags, session, meta));
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
