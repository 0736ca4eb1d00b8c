/**
 * TensorFlow 1's SavedModelBuilder. It writes beside its target and publishes with a single rename in `save`: a server
 * that watches the target never sees half an export.
 */

import { join } from 'node:path';
import { create, toBinary } from '@bufbuild/protobuf';
import { faultPoint } from '../../../base/async/fault-point.js';
import { invalid } from '../../../base/errors/errors.js';
import { type MetaGraphDef, SavedModelSchema } from '../../../base/proto/generated/model_pb.js';
import { textFormat } from '../../../base/proto/text-format.js';
import type { Graph } from '../../../tensorflow/graph/graph.js';
import { currentGraph } from '../../../tensorflow/graph/graph.js';
import type { TrainingRunner } from '../../train/task/training-runner.js';
import { Assets } from '../graph/assets.js';
import { type ExportedMetaGraph, type MetaGraphOptions, makeMetaGraph } from '../graph/meta-graph-export.js';
import {
  ASSETS_DIRECTORY,
  EXTRA_DIRECTORY,
  SAVED_MODEL_FILE,
  SAVED_MODEL_TEXT_FILE,
  SCHEMA_VERSION,
  VARIABLES_DIRECTORY,
  VARIABLES_PREFIX,
} from '../signatures/constants.js';
import { clusterVariables } from '../variables/cluster-variables.js';
import { sessionVariables, type VariableSource, writeFlushed } from '../variables/variable-source.js';
import { Staging, writeError } from './staging.js';

/** A session, or only the graph if `source` has the variables. */
export type ExportSession = Pick<TrainingRunner, 'graph'> &
  Partial<Pick<TrainingRunner, 'run' | 'server'>> & { readonly rawSession?: TrainingRunner };

export interface VariablesOptions extends MetaGraphOptions {
  /** Where the variables come from. Default: the session. */
  readonly source?: VariableSource;
  /** Cancels the export; default: none. */
  readonly signal?: AbortSignal;
}

export class SavedModelBuilder implements AsyncDisposable {
  readonly #exportDir: string;
  readonly #metaGraphs: MetaGraphDef[] = [];
  readonly #assets = new Assets();
  readonly #extra = new Map<string, Uint8Array>();
  #staging: Staging | undefined;
  #keys: ReadonlySet<string> | undefined;
  #state: 'open' | 'busy' | 'over' = 'open';
  /** The call in progress. */
  #call: Promise<unknown> = Promise.resolve();

  /** `exportDir` is the directory of one version, such as `export/3`; it must not exist, or be empty. */
  constructor(exportDir: string) {
    if (exportDir === '') throw invalid('An export needs a directory');
    this.#exportDir = exportDir;
  }

  /** Adds the graph of the session under these tags, and writes its variables. Once, and first. */
  async addMetaGraphAndVariables(
    session: ExportSession,
    tags: readonly string[],
    options: VariablesOptions = {},
  ): Promise<void> {
    if (this.#keys) {
      throw invalid('The variables of this export are written already', {
        hint: 'Further graphs share them: use addMetaGraph.',
      });
    }
    await this.#exclusively(async () => {
      const { signal, source = sourceOf(session) } = options;
      this.#staging = await Staging.open(this.#exportDir);
      const { meta, variables } = makeMetaGraph(session.graph, tags, options, this.#assets);
      await this.#assets.check();
      if (variables.length > 0) {
        await faultPoint('export.variables.before');
        const directory = await this.#staging.folder(VARIABLES_DIRECTORY);
        await source.write({ variables, directory, prefix: VARIABLES_PREFIX, signal });
        await faultPoint('export.variables.after');
      }
      this.#keys = new Set(variables.map(({ key }) => key));
      this.#metaGraphs.push(meta);
    });
  }

  /** Adds another graph (default: the current one), with other tags, that uses the variables of the first. */
  async addMetaGraph(
    tags: readonly string[],
    options: MetaGraphOptions & { readonly graph?: Graph } = {},
  ): Promise<void> {
    const keys = this.#keys;
    if (!keys) {
      throw invalid('The first graph of an export comes with the variables', {
        hint: 'Call addMetaGraphAndVariables first.',
      });
    }
    await this.#exclusively(async () => {
      const made = makeMetaGraph(options.graph ?? currentGraph(), tags, options, this.#assets);
      checkShared(made, keys, tags);
      const same = this.#metaGraphs.some((other) => sameTags(other.metaInfoDef?.tags ?? [], tags));
      if (same) throw invalid(`The export has a graph with the tags ${tags.join(', ')} already`);
      await this.#assets.check();
      this.#metaGraphs.push(made.meta);
    });
  }

  /** Adds a file to `assets.extra`, which is part of the model but not read by loaders. */
  addExtraAsset(file: string, content: Uint8Array | string): void {
    if (!/^[\w][\w.-]*$/.test(file))
      throw invalid(`${JSON.stringify(file)} cannot be the name of an extra asset`);
    this.#extra.set(file, Buffer.from(content));
  }

  /** Writes the rest and publishes; resolves with the directory. `asText` writes text format; default: false. */
  async save(options: { readonly asText?: boolean; readonly signal?: AbortSignal } = {}): Promise<string> {
    const { asText = false, signal } = options;
    return this.#exclusively(async () => {
      const staging = this.#staging;
      if (!staging) throw invalid('There is nothing to save: call addMetaGraphAndVariables first');
      if (this.#assets.all.length > 0)
        await this.#assets.copyTo(await staging.folder(ASSETS_DIRECTORY), signal);
      for (const [file, content] of this.#extra)
        await writeFlushed(join(await staging.folder(EXTRA_DIRECTORY), file), [content], signal);
      await faultPoint('export.model.before');
      const model = create(SavedModelSchema, {
        savedModelSchemaVersion: SCHEMA_VERSION,
        metaGraphs: this.#metaGraphs,
      });
      const [file, bytes] = asText
        ? [SAVED_MODEL_TEXT_FILE, Buffer.from(textFormat(SavedModelSchema, model))]
        : [SAVED_MODEL_FILE, toBinary(SavedModelSchema, model)];
      await writeFlushed(join(staging.directory, file), [bytes], signal);
      signal?.throwIfAborted();
      const published = await staging.publish();
      this.#state = 'over';
      return published;
    });
  }

  /** Removes what was written, unless it was saved. Waits for a call in progress. */
  async discard(): Promise<void> {
    await Promise.allSettled([this.#call]);
    this.#state = 'over';
    await this.#staging?.discard();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.discard();
  }

  /** One call at a time. After a failure nothing is left on the disk, and the builder cannot be used again. */
  async #exclusively<T>(work: () => Promise<T>): Promise<T> {
    if (this.#state !== 'open') {
      throw invalid(
        this.#state === 'busy'
          ? 'A call of this builder has not ended yet'
          : 'This builder cannot be used again',
        { hint: 'Await each call, and create a builder for each export.' },
      );
    }
    this.#state = 'busy';
    const call = work();
    this.#call = call;
    try {
      const result = await call;
      if (this.#state === 'busy') this.#state = 'open';
      return result;
    } catch (error) {
      this.#state = 'over';
      await this.#staging?.discard();
      throw writeError(this.#exportDir, error);
    }
  }
}

function sourceOf(session: ExportSession): VariableSource {
  const { server, run } = rawSession(session);
  if (server) return clusterVariables(server);
  if (!run) throw invalid('An export without a session needs a source of its variables');
  return sessionVariables(rawSession(session) as TrainingRunner);
}

/** What a monitored session runs on. Its own `run` would count an export as a training step. */
function rawSession(session: ExportSession): ExportSession {
  return session.rawSession ?? session;
}

function checkShared(
  { variables }: ExportedMetaGraph,
  keys: ReadonlySet<string>,
  tags: readonly string[],
): void {
  const missing = variables.find(({ key }) => !keys.has(key));
  if (!missing) return;
  throw invalid(
    `The graph with the tags ${tags.join(', ')} needs the variable '${missing.key}', which the first graph has not written`,
    {
      hint: 'List it in the varList of addMetaGraphAndVariables.',
    },
  );
}

function sameTags(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((tag) => b.includes(tag));
}
