import type { Fetches, FetchResult } from './fetches.js';
import type { RunOptions } from './session.js';

/** Runs fetches: a session, local or over a cluster, or a wrapper of one. */
export interface Runner {
  run<const F extends Fetches>(fetches: F, options?: RunOptions): Promise<FetchResult<F>>;
  /** The current TensorFlow session, if sessions are replaced. */
  now?(): Runner | undefined;
  /** For loops beside the training steps, which are more than runs here; default: this runner. */
  readonly background?: Runner;
}
