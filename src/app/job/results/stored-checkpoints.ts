/** Evaluates the checkpoints of a job in the process that trains it, as an evaluator task does. */
import { ShoalError } from '../../../base/errors/errors.js';
import type { Log } from '../../../base/text/log.js';
import type { Manifest } from '../../../distributed/checkpoint/format/manifest.js';
import type { NotePlace } from '../../../distributed/checkpoint/reading/job-note.js';
import type { Session } from '../../../tensorflow/session/session.js';
import { CheckpointSource } from '../../../training/train/evaluation/checkpoint-source.js';
import type { EvaluatedCheckpoint } from '../../../training/train/evaluation/decisions.js';
import { refOf } from './evaluation-log.js';

/** What saves the checkpoints. */
export interface SavedCheckpoints {
  /** The newest checkpoint, after a save unless the current step is saved. */
  saved(): Promise<Manifest | undefined>;
}

/** The checkpoints of the job, as those that are evaluated. */
export class StoredCheckpoints {
  readonly #checkpoints: SavedCheckpoints;
  readonly #source: CheckpointSource;
  #restored: Manifest | undefined;
  #begin: ((checkpoint: EvaluatedCheckpoint) => Promise<void>) | undefined;

  constructor({ store, namespace }: NotePlace, checkpoints: SavedCheckpoints, log: Log) {
    this.#checkpoints = checkpoints;
    this.#source = new CheckpointSource({
      store,
      namespace,
      log,
      onRestore: async (manifest) => {
        this.#restored = manifest;
        await this.#begin?.(refOf(manifest));
      },
    });
  }

  async load(
    session: Session,
    begin: (checkpoint: EvaluatedCheckpoint) => Promise<void>,
    signal: AbortSignal,
  ): Promise<EvaluatedCheckpoint> {
    const saved = await this.#checkpoints.saved();
    if (!saved) throw new ShoalError('SHOAL_NOT_FOUND', 'There is no checkpoint to evaluate');
    this.#begin = begin;
    await this.#source.restore(session, saved.prefix, { signal });
    return refOf(this.#restored ?? saved);
  }
}
