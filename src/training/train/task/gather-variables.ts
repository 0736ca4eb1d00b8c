/**
 * Copies a consistent snapshot of variables from the tasks that hold them to the disk of this task, as a tensor bundle,
 * for an export. It is a save whose store is the disk of the requesting task: it pauses the workers, takes a snapshot,
 * and streams the shards as every save does, but does not read them back. No value passes through the memory of this task.
 *
 * Only the chief can order it. Other tasks send a request to the chief.
 */

import { copyFile, link, open } from 'node:fs/promises';
import { join } from 'node:path';
import * as v from 'valibot';
import { firstLineOf, isShoalError, ShoalError } from '../../../base/errors/errors.js';
import type { Log } from '../../../base/text/log.js';
import { type Consistency, consistencyOf } from '../../../distributed/checkpoint/format/consistency.js';
import { type Manifest, ManifestSchema } from '../../../distributed/checkpoint/format/manifest.js';
import { fileBlob, newAttempt } from '../../../distributed/checkpoint/format/names.js';
import {
  type SavedVariable,
  SavedVariableSchema,
} from '../../../distributed/checkpoint/format/saved-variable.js';
import { type SaveContext, save } from '../../../distributed/checkpoint/protocol/save.js';
import { PeerError } from '../../../distributed/cluster/agent/http-peer.js';
import { validated } from '../../../distributed/cluster/agent/wire.js';
import { isPresent } from '../../../distributed/cluster/membership/types.js';
import type { ClusterServer } from '../../../distributed/cluster/runtime/cluster-server.js';
import type { TaskId } from '../../../distributed/cluster/spec/task-id.js';
import { makeLongRequest, onLongRequest } from '../../../distributed/cluster/task/long-order.js';
import { placeOf } from '../../../distributed/cluster/task/peers.js';
import { DirectoryStore } from '../../../distributed/store/disk/directory-store.js';
import { report } from '../../../distributed/store/disk/sweeping.js';
import { markPlace, placeUrl } from '../../../distributed/store/peers/place-store.js';
import type { Store } from '../../../distributed/store/store.js';

const GATHER = 'variables-gather';
/** The blobs of running exports, in a folder each. The + prevents collisions with the namespaces of checkpoints. */
const FOLDER = '+exports';
const BASENAME = 'variables';
/** Delays of further sweeps after a failed export: a write that is still running may publish a blob later. */
const SWEEP_AGAIN_MS = [2_000, 60_000];

const Text = v.pipe(v.string(), v.minLength(1), v.maxLength(4096));
const OrderSchema = v.object({
  place: Text,
  /** Lets a ps on the same machine detect that it shares the disk. */
  mark: v.object({ directory: Text, file: Text, content: Text }),
  namespace: v.pipe(Text, v.regex(/^\+exports\/[a-z0-9-]+$/, 'expected a folder of exports')),
  consistency: v.picklist(['consistent', 'relaxed']),
  variables: v.array(v.tuple([Text, v.array(SavedVariableSchema)])),
});
const GatheredSchema = v.object({ manifest: ManifestSchema });
type Order = v.InferOutput<typeof OrderSchema>;

export interface GatherRequest {
  /** The variables of each task. */
  readonly variables: ReadonlyMap<string, readonly SavedVariable[]>;
  /** An existing directory for `PREFIX.index` and `PREFIX.data-0000i-of-0000n`. */
  readonly directory: string;
  readonly prefix: string;
  /** Default: `consistent`. */
  readonly consistency?: Consistency;
  readonly signal?: AbortSignal;
  readonly onProgress?: (bytes: number) => void;
}

export interface GathererOptions {
  readonly server: ClusterServer;
  /** The directory whose blobs the agent serves. */
  readonly directory: string;
  readonly openStore: (url: string) => Store;
  /** The context of every save of this task; used on the chief. */
  readonly saving: () => Omit<SaveContext, 'store' | 'namespace' | 'now' | 'log'>;
  readonly log: Log;
}

export class VariableGatherer {
  readonly #options: GathererOptions;
  /** The folders of running exports of this process. */
  readonly #live = new Set<string>();
  /** On the chief: the requesting task of each running export. */
  readonly #exporters = new Map<symbol, TaskId>();

  constructor(options: GathererOptions) {
    this.#options = options;
    const { server } = options;
    onLongRequest(server.task, GATHER, async (payload, { signal, onProgress, orderedBy }) => {
      if (!server.isChief) {
        throw new ShoalError('SHOAL_ABORTED', `${server.task.task} is no longer the chief`, {
          hint: 'Retry: another chief has just taken over.',
        });
      }
      const order = validated(OrderSchema, payload, `request ${GATHER}`);
      if (order.place !== placeOf(orderedBy.task)) {
        throw new ShoalError('SHOAL_FORBIDDEN', `${orderedBy.task} can export to its own disk only`, {
          task: orderedBy.task,
        });
      }
      const entry = Symbol(orderedBy.task);
      this.#exporters.set(entry, orderedBy.task);
      try {
        return { manifest: await this.#collect(order, signal, onProgress) };
      } finally {
        this.#exporters.delete(entry);
      }
    });
  }

  /** The other tasks whose exports this task is carrying out. */
  get exporters(): readonly TaskId[] {
    return [...new Set(this.#exporters.values())];
  }

  /** Resolves when the files are in the directory and flushed. After a failure the directory may hold some of them. */
  async gather(request: GatherRequest): Promise<void> {
    const { variables, directory, prefix, signal } = request;
    const { server } = this.#options;
    const own = new DirectoryStore(this.#options.directory);
    const namespace = `${FOLDER}/${newAttempt()}`;
    this.#live.add(namespace);
    let isDone = false;
    try {
      await this.#sweep(own);
      const order: Order = {
        place: placeOf(server.task.task),
        mark: await markPlace(own.root, `${namespace}/mark`),
        namespace,
        consistency: consistencyOf(request.consistency),
        variables: [...variables].map(([task, list]) => [task, [...list]]),
      };
      const collected = server.isChief
        ? this.#collect(order, signal, request.onProgress)
        : this.#askChief(order, request);
      const manifest = await collected.catch((error: unknown) => {
        throw isShoalError(error, 'SHOAL_NO_SPACE') ? noSpace(server.task.task, error) : error;
      });
      for (const { file } of manifest.files) {
        const target = join(directory, prefix + file.slice(manifest.prefix.length));
        await linkOrCopy(join(own.root, fileBlob(namespace, manifest, file)), target);
      }
      isDone = true;
    } finally {
      this.#live.delete(namespace);
      await this.#sweep(own).catch(() => {
        // The next export removes remaining blobs.
      });
      await own.close();
      if (!isDone) this.#sweepLater();
    }
  }

  /** The chief's part, for itself or for another task. */
  async #collect(
    { place, mark, namespace, consistency, variables }: Order,
    signal: AbortSignal | undefined,
    onProgress: ((bytes: number) => void) | undefined,
  ): Promise<Manifest> {
    const { openStore, saving, log } = this.#options;
    const store = openStore(placeUrl(place, mark));
    const { manifest } = await save(
      { ...saving(), store, namespace, now: Date.now, log },
      {
        variables: new Map(variables),
        basename: BASENAME,
        step: () => Promise.resolve({ step: 0 }),
        consistency,
        // The tasks still hold the values, and every loader verifies the checksums: docs/design/020.
        readBack: false,
        signal,
        onProgress: ({ bytes }) => onProgress?.(bytes),
      },
    );
    return manifest;
  }

  async #askChief(order: Order, { signal, onProgress }: GatherRequest): Promise<Manifest> {
    const { task } = this.#options.server;
    const { chief } = task;
    const status = chief && task.member(chief)?.status;
    if (chief === undefined || status === undefined || !isPresent(status)) {
      const name = chief === undefined ? '' : ` (${chief})`;
      const why = status === 'left' ? `the chief${name} has left the cluster` : `there is no chief${name}`;
      throw noChief(task.task, why);
    }
    try {
      const answer = await makeLongRequest(task, chief, GATHER, newAttempt(), order, { signal, onProgress });
      return validated(GatheredSchema, answer, `answer of ${chief}`).manifest;
    } catch (error) {
      const now = task.member(chief)?.status;
      const name = `the chief (${chief})`;
      if (now === 'left') throw noChief(task.task, `${name} left meanwhile`, error);
      if (now === undefined || !isPresent(now)) throw noChief(task.task, `${name} was lost meanwhile`, error);
      // The chief may be lost, but the membership has not detected it yet.
      if (error instanceof PeerError) throw noChief(task.task, `${name} does not answer`, error);
      throw error;
    }
  }

  /** Removes the blobs that exports of earlier processes of this task left behind; returns their number. */
  async sweep(): Promise<number> {
    const own = new DirectoryStore(this.#options.directory);
    try {
      return await this.#sweep(own);
    } finally {
      await own.close();
    }
  }

  #sweepLater(): void {
    const { log } = this.#options;
    for (const ms of SWEEP_AGAIN_MS) setTimeout(() => report(this.sweep(), log), ms).unref();
  }

  /** Keeps only the blobs of running exports of this process. */
  async #sweep(own: DirectoryStore): Promise<number> {
    let count = 0;
    for await (const { name } of own.list(`${FOLDER}/`)) {
      const namespace = name.split('/').slice(0, 2).join('/');
      if (this.#live.has(namespace)) continue;
      await own.remove(name);
      count += 1;
    }
    return count;
  }
}

/** The error comes from the task that writes, but the full disk is that of the exporting task. */
const noSpace = (task: TaskId, cause: ShoalError): ShoalError =>
  new ShoalError(
    'SHOAL_NO_SPACE',
    `No space left on the disk of ${task} for the variables of an export: ${firstLineOf(cause)}`,
    {
      task,
      cause,
      hint: 'Free some space where this task keeps its blobs. Nothing of this export is left on the disk.',
    },
  );

/** Only the chief can pause the workers for a snapshot. */
const noChief = (task: TaskId, why: string, cause?: unknown): ShoalError =>
  new ShoalError('SHOAL_UNREACHABLE', `${task} could not export: ${why}`, {
    task,
    cause,
    hint: 'Every export is carried out by the chief: export while it runs, or let the chief export.',
  });

/** Links a blob to a path outside of the store, or copies it to another file system. */
async function linkOrCopy(blob: string, target: string): Promise<void> {
  try {
    await link(blob, target);
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    if (!['EXDEV', 'EPERM', 'ENOTSUP', 'EMLINK'].includes(code)) throw error;
    await copyFile(blob, target);
    const file = await open(target, 'r+');
    await file.datasync().finally(() => file.close());
  }
}
