/** A run with hooks: their fetches and feeds are part of the run, and they get its values. */
import { invalid } from '../../../base/errors/errors.js';
import type { RunMetadata } from '../../../base/proto/generated/config_pb.js';
import type { Graph } from '../../../tensorflow/graph/graph.js';
import { Output } from '../../../tensorflow/graph/operation.js';
import type { Feeds } from '../../../tensorflow/session/feeds.js';
import type { Fetches, FetchResult } from '../../../tensorflow/session/fetches.js';
import type { RunOptions } from '../../../tensorflow/session/runner.js';
import type { Tensor, TensorLike } from '../../../tensorflow/tensor/tensor.js';
import type { SessionRunArgs, SessionRunContext, SessionRunHook } from '../hooks/session-run-hook.js';
import { type AdmittedRun, Overtaken } from '../leases/leased-input.js';
import type { RecoverableSession } from '../recovery/recoverable-session.js';

export interface HookedRun {
  readonly hooks: readonly SessionRunHook[];
  readonly context: SessionRunContext;
  readonly options?: Pick<RunOptions, 'feeds' | 'targets' | 'timeoutMs' | 'onMetadata'>;
  readonly session: RecoverableSession;
  /** Cancels the wait of a hook that admits runs. */
  readonly signal: AbortSignal;
}

/** One attempt of a training step, with its hooks. */
export async function runWithHooks<const F extends Fetches>(
  run: HookedRun,
  fetches: F,
): Promise<FetchResult<F>> {
  const { hooks, context, options = {}, session } = run;
  if (fetches === null || fetches === undefined)
    throw invalid(`A training step needs something to fetch, it got ${fetches}`);
  const requested: (SessionRunArgs | undefined)[] = [];
  for (const hook of hooks) requested.push((await hook.beforeRun?.(context)) ?? undefined);
  const all = { caller: fetches as Fetches, hooks: requested.map((args) => args?.fetches) };
  // A conflict must fail before a batch is taken.
  const given = joinFeeds(session.graph, options.feeds, requested);
  const admitted = await admit(run, all);
  const feeds = joinFeeds(session.graph, given, [admitted]);
  const trace = requested.some((args) => args?.trace) || options.onMetadata !== undefined;
  let metadata: RunMetadata | undefined;
  const onMetadata = (given: RunMetadata) => {
    metadata = given;
  };
  const runOptions = { ...options, feeds, onMetadata: trace ? onMetadata : undefined };
  const values = (await (admitted
    ? runAdmitted(session, all, runOptions, admitted)
    : session.attempt(all, runOptions))) as { caller: unknown; hooks: unknown[] };
  if (metadata) options.onMetadata?.(metadata);
  for (const [i, hook] of hooks.entries()) {
    await hook.afterRun?.(context, { results: values.hooks[i], metadata });
  }
  return values.caller as FetchResult<F>;
}

/** Retries a training step after each loss that the session recovers from. */
export async function persist<T>(
  session: RecoverableSession,
  step: () => Promise<T>,
  options: RunOptions = {},
): Promise<T> {
  for (;;) {
    try {
      return await step();
    } catch (error) {
      if (!(error instanceof Overtaken)) await session.recover(error, options);
    }
  }
}

async function admit({ hooks, signal }: HookedRun, all: Fetches): Promise<AdmittedRun | undefined> {
  for (const hook of hooks) {
    const admitted = await hook.admitRun?.(all, signal);
    if (admitted) return admitted;
  }
  return undefined;
}

async function runAdmitted(
  session: RecoverableSession,
  all: Fetches,
  options: RunOptions,
  { position, make }: AdmittedRun,
): Promise<unknown> {
  const result = await make(({ begin, consumed }) =>
    session.attempt({ all, position }, options, {
      before: begin,
      after: (values) => consumed((values as { position: Tensor<'int64'> }).position),
    }),
  );
  return (result as { all: unknown }).all;
}

/** Merges the feeds. A tensor that is fed twice is an error. */
function joinFeeds(
  graph: Graph,
  own: Feeds | undefined,
  requested: readonly ({ readonly feeds?: Feeds | undefined } | undefined)[],
): Feeds | undefined {
  const others = requested.flatMap((args) => (args?.feeds ? [args.feeds] : []));
  if (others.length === 0) return own;
  const joined = new Map<Output, TensorLike>();
  for (const feeds of own ? [own, ...others] : others) {
    for (const [key, value] of entriesOf(feeds)) {
      const output = key instanceof Output ? key : graph.output(key);
      if (joined.has(output)) {
        throw invalid(`${output} is fed twice: by two hooks, or by a hook and the run itself`);
      }
      joined.set(output, value);
    }
  }
  return joined;
}

function entriesOf(feeds: Feeds): Iterable<readonly [Output | string, TensorLike]> {
  if (feeds instanceof Map || Array.isArray(feeds)) {
    return feeds as Iterable<readonly [Output, TensorLike]>;
  }
  return Object.entries(feeds as Record<string, TensorLike>);
}
