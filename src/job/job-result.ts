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
  /** The directory of the last export, if any. */
  readonly exported: string | undefined;
}
