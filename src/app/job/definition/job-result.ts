/** How the training of a worker ended. */
export interface LoopResult {
  /** The global step when this worker stopped. */
  readonly step: number;
  /** Steps that this worker completed. */
  readonly ownSteps: number;
  readonly loss: number | undefined;
  readonly interrupted: boolean;
}

export interface JobResult extends LoopResult {
  /** The job's outputs, as nested arrays; empty if training on a cluster was interrupted. */
  readonly outputs: Readonly<Record<string, unknown>>;
  /** The metrics of the trained model, of a job with `evaluate` that ran without a cluster and was not interrupted. */
  readonly evaluation: Readonly<Record<string, number>> | undefined;
  /** The directory of the last export, if any. */
  readonly exported: string | undefined;
}
