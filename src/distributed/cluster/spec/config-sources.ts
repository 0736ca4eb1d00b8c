/**
 * The sources of a task's configuration: command-line flags, the environment, a config file. Each is read into the same
 * flat form, which keeps the source of every value.
 */
import * as v from 'valibot';
import { ShoalError } from '../../../base/errors/errors.js';
import type { JobSpec } from './cluster-spec.js';
import { findJsonMistake } from './json-position.js';

/** A value and its source, such as `--ps_hosts` or `TF_CONFIG.task.index`. */
export interface Sourced<T> {
  readonly value: T;
  readonly from: string;
}

/** The values of one source. */
export interface ConfigLayer {
  readonly jobs: Readonly<Record<string, Sourced<JobSpec>>>;
  readonly settings: Readonly<Partial<Record<SettingName, Sourced<unknown>>>>;
}

/** Settings other than the cluster: flags and config files use the same names. */
export const SETTINGS = {
  job_name: { env: undefined },
  task_index: { env: undefined },
  cluster_name: { env: 'SHOAL_CLUSTER_NAME' },
  listen: { env: 'SHOAL_LISTEN' },
  engine: { env: 'SHOAL_ENGINE' },
  tf_port: { env: 'SHOAL_TF_PORT' },
  certs: { env: 'SHOAL_CERTS' },
  cluster_token: { env: 'SHOAL_CLUSTER_TOKEN' },
  cluster_token_file: { env: 'SHOAL_CLUSTER_TOKEN_FILE' },
  insecure_network: { env: 'SHOAL_INSECURE_NETWORK' },
  heartbeat_ms: { env: 'SHOAL_HEARTBEAT_MS' },
  dead_after_ms: { env: 'SHOAL_DEAD_AFTER_MS' },
  lost_worker_ms: { env: 'SHOAL_LOST_WORKER_MS' },
  grace_secs: { env: 'SHOAL_GRACE_SECS' },
  elastic: { env: 'SHOAL_ELASTIC' },
} as const satisfies Record<string, { env: string | undefined }>;

export type SettingName = keyof typeof SETTINGS;

const SETTING_NAMES = Object.keys(SETTINGS) as SettingName[];
const HOST_FLAGS: Readonly<Record<string, string>> = {
  ps_hosts: 'ps',
  worker_hosts: 'worker',
  chief_hosts: 'chief',
  evaluator_hosts: 'evaluator',
};
const SWITCHES: ReadonlySet<string> = new Set(['insecure_network', 'elastic']);

export function configError(message: string, hint?: string, cause?: unknown): ShoalError {
  return new ShoalError('SHOAL_CONFIG', message, { hint, cause });
}

export interface FlagLayer extends ConfigLayer {
  /** The value of `--config`. */
  readonly configFile: string | undefined;
  /** The arguments that are not Shoal's flags. */
  readonly rest: readonly string[];
}

/** Parses `--flag value` and `--flag=value`; the last value of a repeated flag wins; `--` ends the flags. */
export function readFlags(argv: readonly string[]): FlagLayer {
  const jobs: Record<string, Sourced<JobSpec>> = {};
  const settings: Partial<Record<SettingName, Sourced<unknown>>> = {};
  const rest: string[] = [];
  let configFile: string | undefined;
  for (let at = 0; at < argv.length; at++) {
    const word = argv[at]!;
    if (word === '--') {
      rest.push(...argv.slice(at));
      break;
    }
    const match = /^--?([a-zA-Z][a-zA-Z0-9_-]*)(?:=(.*))?$/s.exec(word);
    const name = (match?.[1] ?? '').replaceAll('-', '_');
    const job = Object.hasOwn(HOST_FLAGS, name) ? HOST_FLAGS[name] : undefined;
    if (match === null || (job === undefined && name !== 'config' && !Object.hasOwn(SETTINGS, name))) {
      rest.push(word);
      continue;
    }
    const from = `--${match[1]}`;
    if (name === 'cluster_token') {
      throw configError(
        `${from} is not accepted: every user of this machine can see the arguments of a process`,
        'set SHOAL_CLUSTER_TOKEN, or use --cluster-token-file with a file that only its owner can read',
      );
    }
    const inline = match[2];
    if (SWITCHES.has(name)) {
      settings[name as SettingName] = { value: inline ?? 'true', from };
      continue;
    }
    const value = inline ?? argv[++at];
    if (value === undefined || (inline === undefined && value.startsWith('--'))) {
      throw configError(`argument ${at}: ${from} has no value`, `write ${from}=VALUE`);
    }
    if (name === 'config') configFile = value;
    else if (job !== undefined) jobs[job] = { value: splitHosts(value), from };
    else settings[name as SettingName] = { value, from };
  }
  return { jobs, settings, configFile, rest };
}

/**
 * The flags of an argument list that set neither the tasks of the cluster nor which one this is. Without `--config`, which
 * a program that describes its cluster itself may use for something else.
 */
export function flagsOfSettings(argv: readonly string[]): string[] {
  return Object.entries(readFlags(argv).settings)
    .filter(([name]) => name !== 'job_name' && name !== 'task_index')
    .map(([name, given]) => `--${name}=${given.value}`);
}

function splitHosts(list: string): readonly string[] {
  return list.trim() === '' ? [] : list.split(',').map((host) => host.trim());
}

const JobSchema = v.union(
  [v.array(v.string()), v.record(v.string(), v.string())],
  'expected a list of addresses, or a map from task index to address',
);
const ClusterSchema = v.record(v.string(), JobSchema);
const IndexSchema = v.union([v.number(), v.string()], 'expected a number');

const TfConfigSchema = v.object({
  cluster: v.optional(ClusterSchema),
  task: v.optional(v.object({ type: v.optional(v.string()), index: v.optional(IndexSchema) })),
});

const FileSchema = v.strictObject({
  cluster: v.optional(ClusterSchema),
  task: v.optional(v.object({ type: v.optional(v.string()), index: v.optional(IndexSchema) })),
  ...(Object.fromEntries(
    SETTING_NAMES.map((name) => [name, v.optional(v.union([v.string(), v.number(), v.boolean()]))]),
  ) as Record<
    SettingName,
    v.OptionalSchema<
      v.UnionSchema<
        [v.StringSchema<undefined>, v.NumberSchema<undefined>, v.BooleanSchema<undefined>],
        undefined
      >,
      undefined
    >
  >),
});

function parseJson(text: string, place: string): unknown {
  const mistake = findJsonMistake(text);
  if (mistake === undefined) return JSON.parse(text);
  const { line, column, offset, expected, near } = mistake;
  throw configError(
    `${place} is not JSON: expected ${expected} at position ${offset} (line ${line}, column ${column}), near \`${near}\``,
  );
}

function check<S extends v.GenericSchema>(schema: S, value: unknown, place: string): v.InferOutput<S> {
  if (Array.isArray(value)) throw configError(`${place}: expected an object, not a list`);
  const result = v.safeParse(schema, value);
  if (result.success) return result.output;
  const issue = result.issues[0];
  const path = v.getDotPath(issue as v.BaseIssue<unknown>);
  throw configError(`${place}${path === null ? '' : `.${path}`}: ${issue.message}`);
}

type RawConfig = v.InferOutput<typeof TfConfigSchema>;

function layerOf({ cluster = {}, task = {} }: RawConfig, place: string): ConfigLayer {
  const jobs: Record<string, Sourced<JobSpec>> = {};
  for (const [name, value] of Object.entries(cluster)) {
    const from = `${place}.cluster.${name}`;
    // TensorFlow 1 called the chief's job master.
    const job = name === 'master' ? 'chief' : name;
    const other = jobs[job];
    if (other !== undefined) throw configError(`${from}: there are two chiefs, the other is ${other.from}`);
    jobs[job] = { value, from };
  }
  const settings: Partial<Record<SettingName, Sourced<unknown>>> = {};
  if (task.type !== undefined) {
    const value = task.type === 'master' ? 'chief' : task.type;
    settings.job_name = { value, from: `${place}.task.type` };
  }
  if (task.index !== undefined) settings.task_index = { value: task.index, from: `${place}.task.index` };
  return { jobs, settings };
}

/** Reads TF_CONFIG and the SHOAL_* variables. */
export function readEnvironment(env: Readonly<Record<string, string | undefined>>): ConfigLayer {
  const text = env.TF_CONFIG;
  const raw =
    text === undefined || text.trim() === ''
      ? {}
      : check(TfConfigSchema, parseJson(text, 'TF_CONFIG'), 'TF_CONFIG');
  const { jobs, settings } = layerOf(raw, 'TF_CONFIG');
  const own = SETTING_NAMES.flatMap((name) => {
    const variable = SETTINGS[name].env;
    const value = variable === undefined ? undefined : env[variable];
    return value === undefined || value === '' ? [] : [[name, { value, from: variable }] as const];
  });
  return { jobs, settings: { ...settings, ...Object.fromEntries(own) } };
}

/** Reads the text of a config file. */
export function readConfigText(text: string, path: string): ConfigLayer {
  const raw = check(FileSchema, parseJson(text, path), path);
  const { jobs, settings } = layerOf(raw, path);
  const own = SETTING_NAMES.flatMap((name) => {
    const value = raw[name];
    return value === undefined ? [] : [[name, { value, from: `${path}.${name}` }] as const];
  });
  return { jobs, settings: { ...settings, ...Object.fromEntries(own) } };
}
