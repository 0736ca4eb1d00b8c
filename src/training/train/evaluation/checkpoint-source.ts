/**
 * Read-only access to the checkpoints of a running job, for a process that does not train: it finds them through the
 * cluster, wherever their bytes are, and restores them into its own session.
 */

import { basename, join } from 'node:path';
import { invalid, ShoalError } from '../../../base/errors/errors.js';
import type { Log } from '../../../base/text/log.js';
import type { Manifest } from '../../../distributed/checkpoint/format/manifest.js';
import { savedVariable } from '../../../distributed/checkpoint/format/saved-variable.js';
import { restoreCheckpoint } from '../../../distributed/checkpoint/protocol/restore.js';
import { listCheckpoints } from '../../../distributed/checkpoint/reading/catalog.js';
import { ShardService } from '../../../distributed/checkpoint/shard/shard-service.js';
import { SessionVariables } from '../../../distributed/checkpoint/shard/variable-access.js';
import type { Store } from '../../../distributed/store/store.js';
import type { Variable } from '../../../tensorflow/variables/variable.js';
import { globalVariables } from '../../../tensorflow/variables/variable-scope.js';
import type { SaverLike, TrainingRunner } from '../task/training-runner.js';

export interface CheckpointSourceOptions {
  readonly store: Store;
  /** The name of the job among the blobs of the store. */
  readonly namespace: string;
  /** The variables to restore. Default: all global variables of the session's graph. */
  readonly variables?: readonly Variable[];
  readonly log?: Log;
  /** Called with the checkpoint before it is restored, and awaited; default: none. */
  readonly onRestore?: (manifest: Manifest) => Promise<void>;
}

const OWNER = 'this process';

export class CheckpointSource implements SaverLike {
  readonly #options: CheckpointSourceOptions;
  readonly #services = new WeakMap<TrainingRunner, ShardService>();

  constructor(options: CheckpointSourceOptions) {
    this.#options = options;
  }

  async latest(
    _session: TrainingRunner,
    directory: string,
    { signal }: { signal?: AbortSignal } = {},
  ): Promise<string | undefined> {
    const [newest] = await this.#list(signal);
    return newest && join(directory, newest.prefix);
  }

  async restore(
    session: TrainingRunner,
    path: string,
    { signal }: { signal?: AbortSignal } = {},
  ): Promise<unknown> {
    const { store, namespace, log, onRestore } = this.#options;
    const manifest = (await this.#list(signal)).find(({ prefix }) => prefix === basename(path));
    if (!manifest) {
      throw new ShoalError('SHOAL_NOT_FOUND', `Checkpoint ${basename(path)} no longer exists`);
    }
    await onRestore?.(manifest);
    const saved = this.#variables(session).map((variable) =>
      savedVariable(variable, variable.sliceInfo?.fullName ?? variable.name),
    );
    const service = this.#service(session);
    return restoreCheckpoint({ store, namespace, owner: () => service, log }, manifest, {
      variables: new Map([[OWNER, saved]]),
      signal,
    });
  }

  /** The checkpoints that exist, newest first. */
  list(signal?: AbortSignal): Promise<readonly Manifest[]> {
    return this.#list(signal);
  }

  save(): Promise<string> {
    return Promise.reject(invalid('A CheckpointSource is read-only: it cannot save'));
  }

  #list(signal: AbortSignal | undefined) {
    const { store, namespace, log } = this.#options;
    return listCheckpoints(store, namespace, { onNotice: log, signal });
  }

  #variables({ graph }: TrainingRunner): readonly Variable[] {
    return this.#options.variables ?? globalVariables(graph);
  }

  #service(session: TrainingRunner): ShardService {
    const known = this.#services.get(session);
    if (known) return known;
    const { store } = this.#options;
    const access = new SessionVariables(session, [...this.#variables(session)]);
    const made = new ShardService({ access, openStore: () => store });
    this.#services.set(session, made);
    return made;
  }
}
