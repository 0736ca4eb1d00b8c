/** Opens the session that trains: over the cluster, on a TensorFlow server, or in this process. It does not recover. */
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { ConfigProtoSchema } from '../../../base/proto/generated/config_pb.js';
import type { Log } from '../../../base/text/log.js';
import { Session } from '../../../tensorflow/session/session.js';
import { type Counted, globalStepOf } from '../../../tensorflow/variables/global-step.js';
import type { InputRelease } from '../../input/dataset/release.js';
import type { RecoveryGuard } from '../recovery/recovery-guard.js';
import { ReplacedVariables } from '../recovery/replaced-variables.js';
import type { Server } from '../task/server.js';
import type { TrainingRunner } from '../task/training-runner.js';

export interface OpenedRunner {
  readonly runner: TrainingRunner;
  /** The ps whose processes were replaced; undefined without a cluster. */
  readonly replaced?: ReplacedVariables;
  readonly close: () => Promise<void>;
}

export interface OpenRunnerOptions extends Counted {
  readonly server?: Server;
  readonly master?: string;
  readonly config?: MessageInitShape<typeof ConfigProtoSchema>;
  readonly maxWaitMs?: number;
  readonly signal: AbortSignal;
  readonly log: Log;
}

export async function openRunner(
  options: OpenRunnerOptions,
  recoveryGuard: RecoveryGuard,
  inputRelease: InputRelease,
): Promise<OpenedRunner> {
  const { graph, server, master: target, signal } = options;
  if (server) return openOnCluster(server, options, recoveryGuard, inputRelease);
  const session = await Session.create({ graph, signal, target, config: configOf(options) });
  const run: TrainingRunner['run'] = (fetches, runOptions) => session.run(fetches, runOptions);
  const runner = { graph, globalStep: globalStepOf(options), run };
  return { runner, close: () => session.close({ timeoutMs: 30_000 }) };
}

function openOnCluster(
  server: Server,
  options: OpenRunnerOptions,
  recoveryGuard: RecoveryGuard,
  { beforeClose }: InputRelease,
): OpenedRunner {
  const { graph, maxWaitMs, log } = options;
  const session = server.session(graph, {
    waitMs: maxWaitMs,
    onProgress: log,
    keepsProcess: false,
    // A direct session ends nothing: the input continues when a ps is replaced between two steps.
    beforeClose: server.engine.keepsObjects ? undefined : beforeClose,
    config: configOf(options),
  });
  const runner: TrainingRunner = {
    graph,
    globalStep: globalStepOf(options),
    server,
    recoveryGuard,
    run: (fetches, runOptions) => session.run(fetches, runOptions),
    now: () => session.now(),
    endRuns: server.engine.kind === 'grpc' ? (why) => session.renew(why) : undefined,
  };
  const { task, psTasks, checkpoints } = server;
  const replaced = new ReplacedVariables({
    ps: () => psTasks.flatMap((id) => task.member(id) ?? []),
    ownerOf: (device) => checkpoints.ownerOf(device),
    allThere: (signal) => session.current(signal),
  });
  return { runner, replaced, close: () => session.close() };
}

const configOf = ({ config }: OpenRunnerOptions) => config && create(ConfigProtoSchema, config);
