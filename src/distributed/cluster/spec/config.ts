/**
 * The configuration of a task. Per value, flags override the environment, which overrides the file. Each value keeps
 * its source, for error messages and for `shoal config`.
 */
import { readFileSync } from 'node:fs';
import { messageOf, ShoalError } from '../../../base/errors/errors.js';
import { formatAddress, parseAddress } from './address.js';
import { ClusterSpec, type JobSpec, TRAINING_JOBS } from './cluster-spec.js';
import {
  type ConfigLayer,
  configError,
  readConfigText,
  readEnvironment,
  readFlags,
  type SettingName,
  type Sourced,
} from './config-sources.js';
import { readPrivateFile } from './private-file.js';
import { type TaskId, taskId } from './task-id.js';

/** How long the other tasks wait for a dead worker to restart. */
export const LOST_WORKER_MS = 300_000;
/** How long a ps that is asked to stop serves the others. */
export const GRACE_MS = 30_000;

export type { Sourced } from './config-sources.js';

/** What executes runs: Shoal's own engine, or TensorFlow's gRPC servers. */
export type EngineKind = 'direct' | 'grpc';

export const DEFAULT_ENGINE: EngineKind = 'direct';

/** The settings of cluster and local tasks. */
export interface Settings {
  /** Keeps two clusters apart that reach each other's addresses by mistake; default: shoal. */
  readonly clusterName: Sourced<string>;
  /** The agent's address; default: the task's address in the cluster. */
  readonly listen: Sourced<string | undefined>;
  /** What executes runs; default: that of the job, else direct. */
  readonly engine: Sourced<EngineKind | undefined>;
  /** The port of the TensorFlow server, with the engine grpc; default: 0, any free port. */
  readonly tfPort: Sourced<number>;
  /** The directory that `shoal certs` wrote. */
  readonly certs: Sourced<string | undefined>;
  readonly clusterToken: Sourced<string | undefined>;
  readonly insecureNetwork: Sourced<boolean>;
  readonly heartbeatMs: Sourced<number>;
  /** The silence after which a peer is dead; default: 10 s. */
  readonly deadAfterMs: Sourced<number>;
  /** How long a ps waits for dead workers when no other worker is alive; default: 5 minutes. */
  readonly lostWorkerMs: Sourced<number>;
  /** How long a ps that is asked to stop waits for a save and for the others to leave; default: 30 s. */
  readonly graceSecs: Sourced<number>;
  /** Whether this task is a worker that the cluster does not list; default: false. */
  readonly elastic: Sourced<boolean>;
}

export interface LocalConfig extends Settings {
  readonly mode: 'local';
  readonly rest: readonly string[];
}

export interface ClusterConfig extends Settings {
  readonly mode: 'cluster';
  readonly spec: ClusterSpec;
  /** The source of each job in the specification. */
  readonly jobs: Readonly<Record<string, Sourced<JobSpec>>>;
  readonly job: Sourced<string>;
  readonly index: Sourced<number>;
  readonly task: TaskId;
  readonly isChief: boolean;
  readonly rest: readonly string[];
}

export type TaskConfig = LocalConfig | ClusterConfig;

export interface ConfigInput {
  /** The arguments after the script; default: none. */
  readonly argv?: readonly string[];
  /** The environment variables; default: none. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** A config file; `--config` and SHOAL_CONFIG override it. Default: none. */
  readonly file?: string;
  /** Reads a file; with `isSecret` it contains a token and must be readable by its owner only. Default: from disk. */
  readonly readFile?: (path: string, isSecret: boolean) => string;
  /** Returns a number in [0, 1), for the index of an elastic worker. Default: `Math.random`. */
  readonly random?: () => number;
}

/** Reads the configuration from all sources; a task without a cluster is `local`. */
export function resolveConfig(input: ConfigInput = {}): TaskConfig {
  const { argv = [], env = {}, readFile = readConfigFile, random = Math.random } = input;
  const read = (path: string, from: string, isSecret = false): string => {
    try {
      return readFile(path, isSecret);
    } catch (cause) {
      if (cause instanceof ShoalError) throw cause;
      throw configError(`${from}: cannot read ${path}: ${messageOf(cause)}`, undefined, cause);
    }
  };
  const flags = readFlags(argv);
  const layers: ConfigLayer[] = [flags, readEnvironment(env)];
  const path = flags.configFile ?? (env.SHOAL_CONFIG || undefined) ?? input.file;
  if (path !== undefined) {
    const from =
      flags.configFile !== undefined ? '--config' : env.SHOAL_CONFIG ? 'SHOAL_CONFIG' : 'config file';
    const layer = readConfigText(read(path, from), path);
    if (layer.settings.cluster_token !== undefined) read(path, from, true);
    layers.push(layer);
  }
  const pick = (name: SettingName) =>
    layers.find(({ settings }) => settings[name] !== undefined)?.settings[name];
  const settings = readSettings(pick, read);
  const jobs = layers.toReversed().reduce((all, layer) => Object.assign(all, layer.jobs), {}) as Record<
    string,
    Sourced<JobSpec>
  >;
  const { rest } = flags;
  if (Object.keys(jobs).length === 0) {
    const job = pick('job_name') ?? pick('elastic');
    if (job === undefined) return { mode: 'local', ...settings, rest };
    throw configError(
      `${job.from} sets the task, but no cluster is configured`,
      'set --ps-hosts and --worker-hosts, or TF_CONFIG',
    );
  }
  const self = settings.elastic.value ? readElastic(jobs, pick, random) : readSelf(jobs, pick);
  return { mode: 'cluster', ...settings, ...self, jobs, rest };
}

function readConfigFile(path: string, isSecret: boolean): string {
  return isSecret ? readPrivateFile(path) : readFileSync(path, 'utf8');
}

type Find = (name: SettingName) => Sourced<unknown> | undefined;

type Jobs = Readonly<Record<string, Sourced<JobSpec>>>;

const specOf = (jobs: Jobs): ClusterSpec =>
  new ClusterSpec(Object.fromEntries(Object.entries(jobs).map(([job, { value }]) => [job, value])), {
    where: (job) => jobs[job]!.from,
    knownJobs: TRAINING_JOBS,
  });

/** Elastic workers without an index choose among so many: two of them rarely choose the same. */
const ELASTIC_INDICES = 1_000_000;

/** A worker with an index beyond those that the cluster lists. */
function readElastic(jobs: Jobs, pick: Find, random: () => number) {
  const spec = specOf(jobs);
  const job = textOf(pick('job_name')) ?? { value: 'worker', from: 'default' };
  if (job.value !== 'worker')
    throw configError(
      `${job.from}: ${job.value} cannot be elastic`,
      'only workers can join a cluster that does not list them',
    );
  const listed = spec.has('worker') ? spec.taskIndices('worker') : [];
  const first = Math.max(-1, ...listed) + 1;
  const index = numberOf(pick('task_index')) ?? {
    value: first + Math.floor(random() * ELASTIC_INDICES),
    from: 'random',
  };
  if (listed.includes(index.value))
    throw configError(
      `${index.from}: the cluster lists worker ${index.value}, so it is not elastic`,
      `choose an index from ${first}, or omit it`,
    );
  return { spec, job, index, task: taskId('worker', index.value), isChief: false };
}

function readSelf(jobs: Jobs, pick: Find) {
  const spec = specOf(jobs);
  const job = textOf(pick('job_name'));
  if (job === undefined) {
    throw configError(
      'a cluster is configured, but not which task of it this process is',
      'set --job-name and --task-index, or task in TF_CONFIG',
    );
  }
  const isSingle = job.value === 'chief' || job.value === 'evaluator';
  const index = numberOf(pick('task_index')) ?? (isSingle ? { value: 0, from: 'default' } : undefined);
  if (index === undefined)
    throw configError(`${job.from} is ${job.value}, but no task index is set`, 'set --task-index');
  // The cluster commonly omits the evaluator: it knows the other tasks, they need not know it.
  if (!spec.has(job.value) && job.value !== 'evaluator') {
    throw configError(
      `${job.from}: unknown job "${job.value}"`,
      `the jobs of this cluster are ${spec.jobs.join(', ')}`,
    );
  }
  if (spec.has(job.value) && !spec.has(job.value, index.value)) {
    const indices = spec.taskIndices(job.value).join(', ');
    throw configError(
      `${index.from}: ${index.value} is out of range for job ${job.value}`,
      `its tasks are ${indices}`,
    );
  }
  const task = taskId(job.value, index.value);
  return { spec, job, index, task, isChief: spec.isChief(task) };
}

type Read = (path: string, from: string, isSecret?: boolean) => string;

function readSettings(pick: Find, read: Read): Settings {
  const orElse = <T>(given: Sourced<T> | undefined, value: T): Sourced<T> =>
    given ?? { value, from: 'default' };
  const listen = textOf(pick('listen'));
  const tfPort = orElse(numberOf(pick('tf_port'), 65535), 0);
  const heartbeatMs = orElse(numberOf(pick('heartbeat_ms'), 3_600_000), 500);
  const deadAfterMs = orElse(numberOf(pick('dead_after_ms'), 86_400_000), 10_000);
  if (heartbeatMs.value < 10)
    throw configError(`${heartbeatMs.from}: the heartbeat interval must be at least 10 ms`);
  if (deadAfterMs.value < 4 * heartbeatMs.value) {
    throw configError(
      `${deadAfterMs.from}: ${deadAfterMs.value} ms is too short for a heartbeat every ${heartbeatMs.value} ms`,
      'use at least four heartbeats, or a late packet makes a task look dead',
    );
  }
  return {
    clusterName: orElse(textOf(pick('cluster_name')), 'shoal'),
    listen: orElse<string | undefined>(
      listen && {
        value: formatAddress(parseAddress(listen.value, listen.from, { allowPortZero: true })),
        from: listen.from,
      },
      undefined,
    ),
    engine: orElse<EngineKind | undefined>(engineNamed(textOf(pick('engine'))), undefined),
    tfPort,
    certs: orElse<string | undefined>(textOf(pick('certs')), undefined),
    clusterToken: readToken(pick, read),
    insecureNetwork: orElse(booleanOf(pick('insecure_network')), false),
    heartbeatMs,
    deadAfterMs,
    lostWorkerMs: orElse(numberOf(pick('lost_worker_ms'), 86_400_000), LOST_WORKER_MS),
    graceSecs: orElse(numberOf(pick('grace_secs'), 86_400), GRACE_MS / 1000),
    elastic: orElse(booleanOf(pick('elastic')), false),
  };
}

function engineNamed(given: Sourced<string> | undefined): Sourced<EngineKind> | undefined {
  if (given === undefined) return undefined;
  const { value, from } = given;
  if (value === 'direct' || value === 'grpc') return { value, from };
  throw configError(`${from}: unknown engine ${JSON.stringify(value)}`, 'the engines are direct and grpc');
}

/** The engine of a task: configured, else that of its job, else the default. */
export const engineOf = ({ engine }: Pick<Settings, 'engine'>, ofJob?: EngineKind): EngineKind =>
  engine.value ?? ofJob ?? DEFAULT_ENGINE;

function readToken(pick: Find, read: Read): Sourced<string | undefined> {
  const given = textOf(pick('cluster_token'));
  if (given !== undefined) return given;
  const file = textOf(pick('cluster_token_file'));
  if (file === undefined) return { value: undefined, from: 'default' };
  return { value: read(file.value, file.from, true).trim(), from: `${file.from} (${file.value})` };
}

function textOf(given: Sourced<unknown> | undefined): Sourced<string> | undefined {
  if (given === undefined) return undefined;
  if (typeof given.value !== 'string' || given.value === '')
    throw configError(`${given.from}: expected a non-empty string`);
  return { value: given.value, from: given.from };
}

function numberOf(given: Sourced<unknown> | undefined, max = 999_999_999): Sourced<number> | undefined {
  if (given === undefined) return undefined;
  const text = String(given.value).trim();
  const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  if (value <= max) return { value, from: given.from };
  throw configError(
    `${given.from}: expected an integer from 0 to ${max}, not ${JSON.stringify(given.value)}`,
  );
}

function booleanOf(given: Sourced<unknown> | undefined): Sourced<boolean> | undefined {
  if (given === undefined) return undefined;
  const text = String(given.value).toLowerCase();
  if (['true', '1', 'yes'].includes(text)) return { value: true, from: given.from };
  if (['false', '0', 'no'].includes(text)) return { value: false, from: given.from };
  throw configError(`${given.from}: expected true or false, not ${JSON.stringify(given.value)}`);
}
