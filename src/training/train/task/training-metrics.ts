/** The metrics of training and checkpoints of one task. */

import type { Counter, Histogram, Metrics } from '../../../base/metrics/metrics.js';
import type { LedgerState } from '../../input/leases/ledger.js';
import type { LeaseObserver } from '../../input/leases/shards.js';
import { RECOVERY_MODES, type RecoveryMode } from '../recovery/recovery-mode.js';
import type { TrainingEvent, TrainingEventListener } from './training-events.js';

const STEP_SECS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];
const SAVE_SECS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600];

export class TrainingMetrics {
  /** The durations of this task's training steps, in seconds. */
  readonly steps: Histogram;
  readonly failedSaves: Counter;
  /** Steps that restores of this task, as chief, have undone. */
  readonly repeatedSteps: Counter;
  readonly shardBytes: Counter;
  readonly leases: LeaseObserver;
  /** The ledger of data shards; undefined if it is not this task's. */
  ledger: (() => LedgerState) | undefined;
  readonly #listeners = new Set<TrainingEventListener>();
  readonly #leased: ReturnType<typeof leaseMetrics>;
  readonly #recoveries: Record<RecoveryMode, number> = { exact: 0, partial: 0 };
  readonly #recoverySecs = new Map<string, number>();
  readonly #saveSecs: Histogram;
  readonly #savedBytes: Counter;

  constructor(metrics: Metrics) {
    metrics.readCounter(
      'shoal_steps_total',
      'Training steps that this task has made.',
      () => this.steps.count,
    );
    this.steps = metrics.histogram(
      'shoal_step_seconds',
      'The time of a training step of this task.',
      STEP_SECS,
    );
    metrics.readCounter(
      'shoal_recoveries_total',
      'How often training of this task continued after the loss of a task, by the mode of recovery.',
      () => RECOVERY_MODES.map((mode) => ({ labels: { mode }, value: this.#recoveries[mode] })),
    );
    metrics.readCounter(
      'shoal_recovery_seconds_total',
      'The time that training of this task spent in recoveries: waiting for tasks, finding the checkpoint, restoring it, resuming.',
      () => [...this.#recoverySecs].map(([phase, value]) => ({ labels: { phase }, value })),
    );
    this.repeatedSteps = metrics.counter(
      'shoal_repeated_steps_total',
      'Steps that restores of this task, as chief, have undone in recoveries.',
    );
    metrics.readCounter(
      'shoal_saves_total',
      'Checkpoints that this task, as chief, has committed.',
      () => this.#saveSecs.count,
    );
    this.failedSaves = metrics.counter(
      'shoal_failed_saves_total',
      'Saves of this task, as chief, that failed or were abandoned for a recovery.',
    );
    this.#saveSecs = metrics.histogram('shoal_save_seconds', 'The time of a committed save.', SAVE_SECS);
    this.#savedBytes = metrics.counter(
      'shoal_saved_bytes_total',
      'The size of the checkpoints that this task, as chief, has committed; copies are not counted.',
    );
    this.shardBytes = metrics.counter(
      'shoal_shard_bytes_total',
      'The size of the shards that this task has written; copies are not counted.',
    );
    this.#leased = leaseMetrics(metrics);
    this.leases = this.#leased.observer;
  }

  /** The leases that this task holds, and the records that it has consumed. */
  get leased(): { readonly held: number; readonly records: number } {
    return { held: this.#leased.held.value, records: this.#leased.records.value };
  }

  /** Adds a listener for what happens in training; returns the function that removes it. */
  onEvent(listener: TrainingEventListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Tells the listeners what has happened. */
  emit(event: TrainingEvent): void {
    for (const listener of this.#listeners) listener(event);
  }

  /** Training continues after a recovery with phases of these durations in milliseconds. */
  recovered(mode: RecoveryMode, phases: Readonly<Record<string, number>>): void {
    this.#recoveries[mode] += 1;
    for (const [phase, ms] of Object.entries(phases))
      this.#recoverySecs.set(phase, (this.#recoverySecs.get(phase) ?? 0) + ms / 1000);
  }

  /** A checkpoint was committed. */
  saved(ms: number, bytes: number): void {
    this.#saveSecs.observe(ms / 1000);
    this.#savedBytes.add(bytes);
  }
}

function leaseMetrics(metrics: Metrics) {
  const held = metrics.gauge('shoal_leases_held', 'Leases of input records that this task holds.');
  const completed = metrics.counter(
    'shoal_leases_completed_total',
    'Leases whose records this task has consumed completely.',
  );
  const records = metrics.counter(
    'shoal_leased_records_total',
    'Records of leases that completed steps of this task have consumed.',
  );
  const observer: LeaseObserver = {
    held: (count) => held.set(count),
    consumed: (count, isComplete) => {
      records.add(count);
      if (isComplete) completed.add();
    },
  };
  return { held, records, observer };
}
