/**
 * Runs the requests that a version brings along for its first runs, which are slower than later ones: those of
 * `assets.extra/tf_serving_warmup_requests`, a TFRecord file of PredictionLog messages. One that fails fails the version.
 */
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { fromBinary, toBinary } from '@bufbuild/protobuf';
import { messageOf } from '../../../base/errors/errors.js';
import {
  type Input,
  type ModelSpec as ModelSpecMessage,
  type PredictionLog,
  PredictionLogSchema,
  PredictRequestSchema,
} from '../../../base/proto/generated/serving_pb.js';
import { readTFRecords } from '../../../tensorflow/formats/tfrecord/reader.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { EXTRA_DIRECTORY } from '../../../training/saved-model/signatures/constants.js';
import { readExamples } from '../messages/examples.js';
import { readInputs, readPredict } from '../messages/predict-messages.js';
import { DEFAULT_SIGNATURE } from '../requests.js';
import { invalidRequest, ServingError, statusOf } from '../status.js';
import { noSignature, type Servable } from './servable.js';
import type { SignaturePlan } from './signature-plan.js';

const WARM_UP_FILE = 'tf_serving_warmup_requests';
/** TensorFlow Serving's bound. */
const MAX_RECORDS = 1000;
const LIMITS = { maxTensorBytes: 1 << 30, maxStrings: 1 << 20 };

export interface ServableWarmUpOptions {
  /** How often each request is run; default: once. */
  readonly iterations?: number;
  readonly signal?: AbortSignal;
}

/** The number of requests that were run; undefined if the version has none. */
export async function warmUpServable(
  servable: Servable,
  { iterations = 1, signal }: ServableWarmUpOptions = {},
): Promise<number | undefined> {
  const path = join(servable.directory, EXTRA_DIRECTORY, WARM_UP_FILE);
  if (!(await stat(path).catch(() => undefined))) return undefined;
  let count = 0;
  try {
    for await (const record of readTFRecords(path)) {
      signal?.throwIfAborted();
      if (count === MAX_RECORDS)
        throw invalidRequest(`Number of warmup records exceeds the maximum (${MAX_RECORDS}) at ${path}`);
      const log = fromBinary(PredictionLogSchema, record);
      for (let i = 0; i < iterations; i++) await replay(servable, log, signal);
      count += 1;
    }
    return count;
  } catch (error) {
    const { status } = statusOf(error);
    throw new ServingError(status, `The warm-up request ${count} of ${path} failed: ${messageOf(error)}`, {
      cause: error,
    });
  }
}

async function replay(servable: Servable, { logType }: PredictionLog, signal?: AbortSignal): Promise<void> {
  switch (logType.case) {
    case 'predictLog': {
      const { request } = logType.value;
      if (!request) return;
      const read = readPredict(toBinary(PredictRequestSchema, request));
      const plan = planOf(servable, read.spec.signatureName);
      const values = plan.bind(readInputs(read.inputs, LIMITS));
      await run(servable, plan, values, read.outputFilter, signal);
      return;
    }
    case 'classifyLog':
    case 'regressLog': {
      const { request } = logType.value;
      return examples(servable, request?.modelSpec, request?.input, signal);
    }
    case 'multiInferenceLog': {
      const { request } = logType.value;
      for (const { modelSpec } of request?.tasks ?? [])
        await examples(servable, modelSpec, request?.input, signal);
      return;
    }
    case undefined:
      return;
    default:
      throw new ServingError('UNIMPLEMENTED', `Unsupported log_type for warmup: ${logType.case}`);
  }
}

async function examples(
  servable: Servable,
  spec: ModelSpecMessage | undefined,
  input: Input | undefined,
  signal?: AbortSignal,
): Promise<void> {
  const plan = planOf(servable, spec?.signatureName);
  const serialized = readExamples(input);
  const tensor = Tensor.of(serialized, { dtype: 'string', shape: [serialized.length] });
  await run(servable, plan, [tensor], [], signal);
}

function planOf(servable: Servable, name: string | undefined): SignaturePlan {
  const signature = name || DEFAULT_SIGNATURE;
  const plan = servable.signatures.get(signature);
  if (!plan) throw noSignature(signature);
  return plan;
}

async function run(
  servable: Servable,
  plan: SignaturePlan,
  values: readonly Tensor[],
  filter: readonly string[],
  signal?: AbortSignal,
): Promise<void> {
  const results = await servable.run(plan, values, plan.choose(filter), { signal });
  for (const result of results) result.dispose();
}
