/** The configuration files of TensorFlow Serving, in protobuf's text format. */
import { readFile } from 'node:fs/promises';
import { dirname, isAbsolute, join } from 'node:path';
import { messageOf, ShoalError } from '../../../base/errors/errors.js';
import { checkModels, LATEST, type ModelConfig, type VersionPolicy } from './model-config.js';
import { type Fields, type Message, parseTextProto } from './text-proto.js';

const text = { kind: 'string' } as const;
const int = { kind: 'int' } as const;
const bool = { kind: 'bool' } as const;
const message = (fields: Fields) => ({ kind: 'message', fields }) as const;
const wrapped = (kind: 'int' | 'bool' | 'string') => message({ value: { kind } });

const POLICY: Fields = {
  latest: message({ num_versions: int }),
  all: message({}),
  specific: message({ versions: { kind: 'int', repeated: true } }),
};
const MODEL: Fields = {
  name: text,
  base_path: text,
  model_platform: text,
  model_type: { kind: 'enum' },
  model_version_policy: message(POLICY),
  version_labels: { kind: 'map' },
  logging_config: message({
    log_collector_config: message({ type: text, filename_prefix: text }),
    sampling_config: message({ sampling_rate: { kind: 'number' } }),
  }),
};
const MODELS: Fields = {
  model_config_list: message({ config: { kind: 'message', fields: MODEL, repeated: true } }),
};
const MONITORING: Fields = { prometheus_config: message({ enable: bool, path: text }) };
const SSL: Fields = { server_key: text, server_cert: text, custom_ca: text, client_verify: bool };
const BATCHING: Fields = {
  max_batch_size: wrapped('int'),
  batch_timeout_micros: wrapped('int'),
  max_enqueued_batches: wrapped('int'),
  num_batch_threads: wrapped('int'),
  thread_pool_name: wrapped('string'),
  enable_large_batch_splitting: wrapped('bool'),
  max_execution_batch_size: wrapped('int'),
  allowed_batch_sizes: { kind: 'int', repeated: true },
  pad_variable_length_inputs: bool,
};

async function read(file: string, fields: Fields): Promise<Message> {
  let content: string;
  try {
    content = await readFile(file, 'utf8');
  } catch (cause) {
    throw new ShoalError('SHOAL_CONFIG', `${file} cannot be read: ${messageOf(cause)}`, { cause });
  }
  return parseTextProto(content, fields, file);
}

/** What a model's config in a file or in a request has. */
interface RawModel {
  readonly name?: string;
  readonly base_path?: string;
  readonly model_platform?: string;
  readonly model_type?: string;
  readonly model_version_policy?: {
    readonly latest?: { readonly num_versions?: number };
    readonly all?: object;
    readonly specific?: { readonly versions?: readonly number[] };
  };
  readonly version_labels?: Readonly<Record<string, number>>;
}

/** Relative base paths begin at the directory of the file. */
export async function readModelConfig(file: string): Promise<readonly ModelConfig[]> {
  const { model_config_list: list } = (await read(file, MODELS)) as {
    readonly model_config_list?: { readonly config?: readonly RawModel[] };
  };
  const models = (list?.config ?? []).map((raw): ModelConfig => {
    const { name = '', base_path: path = '', model_platform: platform } = raw;
    const { version_labels: labels, model_version_policy: policy } = raw;
    return {
      name,
      basePath: isAbsolute(path) || path === '' ? path : join(dirname(file), path),
      policy: policyOf(policy, `${file}: model ${name}`),
      ...(labels ? { labels } : {}),
      ...(platform ? { platform } : {}),
    };
  });
  checkModels(models);
  return models;
}

function policyOf(policy: RawModel['model_version_policy'], where: string): VersionPolicy {
  const { latest, all, specific } = policy ?? {};
  if ([latest, all, specific].filter((one) => one !== undefined).length > 1)
    throw new ShoalError('SHOAL_CONFIG', `${where} has several version policies; it may have one`);
  if (all) return { kind: 'all' };
  if (specific) return { kind: 'specific', versions: specific.versions ?? [] };
  const count = latest?.num_versions ?? 1;
  return count === 1 ? LATEST : { kind: 'latest', count };
}

/** The path of the metrics; undefined if they are not enabled. */
export async function readMonitoringConfig(file: string): Promise<string | undefined> {
  const { prometheus_config: config } = (await read(file, MONITORING)) as {
    readonly prometheus_config?: { readonly enable?: boolean; readonly path?: string };
  };
  if (!config?.enable) return undefined;
  return config.path || '/monitoring/prometheus/metrics';
}

/** Texts in PEM. */
export interface SslConfig {
  readonly key: string;
  readonly cert: string;
  readonly ca: string | undefined;
  readonly verifiesClients: boolean;
}

export async function readSslConfig(file: string): Promise<SslConfig> {
  const raw = (await read(file, SSL)) as {
    readonly server_key?: string;
    readonly server_cert?: string;
    readonly custom_ca?: string;
    readonly client_verify?: boolean;
  };
  if (!raw.server_key || !raw.server_cert)
    throw new ShoalError('SHOAL_CONFIG', `${file} needs server_key and server_cert`, {
      hint: 'Both are the contents of PEM files, not their paths.',
    });
  return {
    key: raw.server_key,
    cert: raw.server_cert,
    ca: raw.custom_ca || undefined,
    verifiesClients: raw.client_verify ?? false,
  };
}

export interface BatchingConfig {
  /** Rows of one run. */
  readonly maxBatchSize: number;
  /** How long the first request of a batch waits for others. */
  readonly timeoutMs: number;
  /** Batches that wait for a run, of one signature. */
  readonly maxEnqueuedBatches: number;
  /** Batches that run at a time, of all signatures. */
  readonly threads: number;
  /** Batches are padded to the next of these sizes, ascending; empty: they are not padded. */
  readonly allowedSizes: readonly number[];
  /** Requests whose other dimensions differ are padded to the largest. */
  readonly padsVariableLengths: boolean;
}

interface RawBatching {
  readonly max_batch_size?: { readonly value?: number };
  readonly batch_timeout_micros?: { readonly value?: number };
  readonly max_enqueued_batches?: { readonly value?: number };
  readonly num_batch_threads?: { readonly value?: number };
  readonly allowed_batch_sizes?: readonly number[];
  readonly pad_variable_length_inputs?: boolean;
}

/** Without a file: TensorFlow Serving's defaults. */
export async function readBatchingConfig(file: string | undefined, cores: number): Promise<BatchingConfig> {
  const raw = (file === undefined ? {} : await read(file, BATCHING)) as RawBatching;
  const where = file ?? 'the batching parameters';
  const atLeast = (name: keyof RawBatching, least: number, fallback: number): number => {
    const value = (raw[name] as { readonly value?: number } | undefined)?.value ?? fallback;
    if (value >= least) return value;
    throw new ShoalError('SHOAL_CONFIG', `${where}: ${name} is ${value}, but must be at least ${least}`);
  };
  const maxBatchSize = atLeast('max_batch_size', 1, 1000);
  const allowedSizes = raw.allowed_batch_sizes ?? [];
  if (allowedSizes.some((size, i) => size <= (allowedSizes[i - 1] ?? 0)))
    throw new ShoalError('SHOAL_CONFIG', `${where}: allowed_batch_sizes must be positive and ascending`);
  if (allowedSizes.length > 0 && allowedSizes.at(-1) !== maxBatchSize)
    throw new ShoalError(
      'SHOAL_CONFIG',
      `${where}: the last of allowed_batch_sizes is ${allowedSizes.at(-1)}, but must be max_batch_size, ${maxBatchSize}`,
    );
  return {
    maxBatchSize,
    timeoutMs: atLeast('batch_timeout_micros', 0, 0) / 1000,
    maxEnqueuedBatches: atLeast('max_enqueued_batches', 1, 10),
    threads: atLeast('num_batch_threads', 1, cores),
    allowedSizes,
    padsVariableLengths: raw.pad_variable_length_inputs ?? false,
  };
}
