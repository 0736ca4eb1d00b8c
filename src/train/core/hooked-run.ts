/** One run with hooks: what they ask for goes into the same run, and they see its values. */
import { invalid } from '../../errors/errors.js';
import type { Graph } from '../../graph/graph.js';
import { Output } from '../../graph/operation.js';
import type { RunMetadata } from '../../proto/generated/config_pb.js';
import type { Feeds } from '../../session/feeds.js';
import type { Fetches } from '../../session/fetches.js';
import type { RunOptions } from '../../session/session.js';
import type { Tensor, TensorLike } from '../../tensor/tensor.js';
import type { SessionRunArgs, SessionRunContext, SessionRunHook } from '../hooks/session-run-hook.js';
import type { AdmittedRun } from '../leases/leased-input.js';
import type { RecoverableSession } from '../recovery/recoverable-session.js';

export interface HookedRun {
  readonly hooks: readonly SessionRunHook[];
  readonly context: SessionRunContext;
  readonly options: Pick<RunOptions, 'feeds' | 'targets' | 'timeoutMs' | 'onMetadata'>;
  readonly session: RecoverableSession;
  /** Where the input is leased: its batch for this run. */
  readonly admit?: ((fetches: Fetches) => Promise<AdmittedRun | undefined>) | undefined;
}

export async function runWithHooks(run: HookedRun, fetches: Fetches): Promise<unknown> {
  const { hooks, context, options, session } = run;
  const wanted: (SessionRunArgs | undefined)[] = [];
  for (const hook of hooks) wanted.push((await hook.beforeRun?.(context)) ?? undefined);
  const feeds = joinFeeds(session.graph, options.feeds, wanted);
  const trace = wanted.some((args) => args?.trace) || options.onMetadata !== undefined;
  let metadata: RunMetadata | undefined;
  const onMetadata = (given: RunMetadata) => {
    metadata = given;
  };
  const runOptions = { ...options, ...(feeds ? { feeds } : {}), ...(trace ? { onMetadata } : {}) };
  const all = { caller: fetches, hooks: wanted.map((args) => args?.fetches) };
  const admitted = await run.admit?.(all);
  const values = (await (admitted
    ? runAdmitted(session, all, runOptions, admitted)
    : session.attempt(all, runOptions))) as { caller: unknown; hooks: unknown[] };
  if (metadata) options.onMetadata?.(metadata);
  for (const [i, hook] of hooks.entries()) {
    await hook.afterRun?.(context, { results: values.hooks[i], metadata });
  }
  return values.caller;
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

/** The feeds of all; one tensor is fed by one of them only. */
function joinFeeds(
  graph: Graph,
  own: Feeds | undefined,
  wanted: readonly (SessionRunArgs | undefined)[],
): Feeds | undefined {
  const others = wanted.flatMap((args) => (args?.feeds ? [args.feeds] : []));
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
