/**
 * The save before a ps leaves. A ps that is asked to stop requests it from the chief. The workers stay paused from the
 * snapshot until the ps is gone, so its successor continues where it stopped: no step is lost.
 */

import * as v from 'valibot';
import { firstLineOf, isShoalError } from '../../../base/errors/errors.js';
import type { Log } from '../../../base/text/log.js';
import type { Hold } from '../../../distributed/checkpoint/protocol/save.js';
import { validated } from '../../../distributed/cluster/agent/wire.js';
import { type Identity, sameIdentity } from '../../../distributed/cluster/membership/map.js';
import { isPresent } from '../../../distributed/cluster/membership/types.js';
import { parseTaskId } from '../../../distributed/cluster/spec/task-id.js';
import type { ClusterTask } from '../../../distributed/cluster/task/cluster-task.js';

const REQUEST = 'train-save-before-leave';
const MAX_GRACE_MS = 86_400_000;
const Question = v.object({ graceMs: v.pipe(v.number(), v.minValue(0), v.maxValue(MAX_GRACE_MS)) });
const Answer = v.object({ step: v.nullable(v.number()) });
type Answer = v.InferOutput<typeof Answer>;

/** Saves; resolves with the step of the checkpoint, or undefined if it failed. */
export type SaveNow = (hold: Hold) => Promise<number | undefined>;

export class LeavingSave {
  readonly #task: ClusterTask;
  readonly #log: Log;
  #saveNow: SaveNow | undefined;
  /** The save after which the workers are still paused: another ps that leaves needs no other. */
  #held: Promise<Answer> | undefined;

  constructor(task: ClusterTask, log: Log) {
    this.#task = task;
    this.#log = log;
    task.onRequest(REQUEST, (payload, { from }) => {
      const { graceMs } = validated(Question, payload, 'request');
      if (parseTaskId(from.task).job !== 'ps' || !this.#saveNow) return { step: null };
      this.#held ??= this.#save(this.#saveNow, from, graceMs);
      return this.#held;
    });
  }

  /** On the chief: how to save. Undefined: there are no checkpoints, or the chief stops too and saves anyway. */
  savesBy(save: SaveNow | undefined): void {
    this.#saveNow = save;
  }

  async #save(save: SaveNow, ps: Identity, graceMs: number): Promise<Answer> {
    this.#log(`${ps.task} leaves: saving first`);
    const gone = this.#gone(ps, graceMs);
    const forget = () => {
      this.#held = undefined;
    };
    void gone.then(forget);
    let step: number | undefined;
    try {
      step = await save({ ms: graceMs, until: gone });
    } finally {
      if (step === undefined) forget();
    }
    return { step: step ?? null };
  }

  /** Resolves when this process of the ps is gone, or after the time. */
  #gone(ps: Identity, ms: number): Promise<void> {
    return new Promise((resolve) => {
      const end = () => {
        clearTimeout(timer);
        unsubscribe();
        resolve();
      };
      const timer = setTimeout(end, ms);
      const unsubscribe = this.#task.events.on('*', () => {
        const now = this.#task.member(ps.task);
        if (!now || !isPresent(now.status) || !sameIdentity(now, ps)) end();
      });
    });
  }

  /** On a ps: requests the save. Resolves with true when it is committed, so that this task may leave. */
  async request(graceMs: number): Promise<boolean> {
    const { chief } = this.#task;
    const member = chief === undefined ? undefined : this.#task.member(chief);
    if (chief === undefined || !member || !isPresent(member.status) || graceMs <= 0) return false;
    try {
      const options = { timeoutMs: graceMs };
      const { step } = validated(
        Answer,
        await this.#task.request(chief, REQUEST, { graceMs }, options),
        'answer',
      );
      if (step !== null) this.#log(`step ${step} is saved: leaving`);
      return step !== null;
    } catch (error) {
      if (isShoalError(error, 'SHOAL_NOT_FOUND')) return false;
      this.#log(`${chief} could not save before this task leaves: ${firstLineOf(error)}`);
      return false;
    }
  }
}
