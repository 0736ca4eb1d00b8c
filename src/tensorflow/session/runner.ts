/** What runs graphs, and the options of a run. */
import type { RunMetadata } from '../../base/proto/generated/config_pb.js';
import type { Operation } from '../graph/operation.js';
import type { Feeds } from './feeds.js';
import type { Fetches, FetchResult } from './fetches.js';

export interface RunOptions {
  /** The values of placeholders and other tensors; default: none. */
  readonly feeds?: Feeds;
  /** Ops to run in addition to the fetches; default: none. */
  readonly targets?: readonly Operation[];
  /** How long the run may take; default: no limit. */
  readonly timeoutMs?: number;
  /** Cancels the run; default: none. */
  readonly signal?: AbortSignal;
  /** Enables tracing and receives the trace; default: no tracing. */
  readonly onMetadata?: (metadata: RunMetadata) => void;
  /**
   * Called when the native call starts; `returned` resolves when it returns, possibly after the run was abandoned.
   * Default: none.
   */
  readonly onBegun?: (returned: Promise<void>) => void;
}

/** Runs fetches: a session, local or over a cluster, or a wrapper of one. */
export interface Runner {
  run<const F extends Fetches>(fetches: F, options?: RunOptions): Promise<FetchResult<F>>;
  /** The current TensorFlow session, if sessions are replaced. */
  now?(): Runner | undefined;
  /** For loops beside the training steps, which are more than runs here; default: this runner. */
  readonly background?: Runner;
}
