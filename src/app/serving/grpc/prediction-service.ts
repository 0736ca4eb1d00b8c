/** TensorFlow Serving's PredictionService over the models of a server. */
import { create } from '@bufbuild/protobuf';
import { anyPack } from '@bufbuild/protobuf/wkt';
import {
  ClassificationRequestSchema,
  ClassificationResponseSchema,
  type ClassificationResult,
  ClassificationResultSchema,
  type GetModelMetadataRequest,
  GetModelMetadataRequestSchema,
  GetModelMetadataResponseSchema,
  type InferenceTask,
  MultiInferenceRequestSchema,
  MultiInferenceResponseSchema,
  PredictionService,
  RegressionRequestSchema,
  RegressionResponseSchema,
  type RegressionResult,
  RegressionResultSchema,
  SignatureDefMapSchema,
} from '../../../base/proto/generated/serving_pb.js';
import { signatureConstants } from '../../../training/saved-model/signatures/constants.js';
import type { ModelServer } from '../core/model-server.js';
import { readExamples } from '../messages/examples.js';
import {
  type MessageLimits,
  missingModelSpec,
  readInputs,
  readPredict,
  type SerializedPredict,
  writePredictResponse,
} from '../messages/predict-messages.js';
import type { Parts } from '../messages/wire-writer.js';
import type { Api } from '../metrics/serving-metrics.js';
import {
  type ClassifyResponse,
  DEFAULT_SIGNATURE,
  type ModelMetadata,
  type RegressResponse,
  type RequestLimits,
} from '../requests.js';
import { invalidRequest, type Status, statusOf } from '../status.js';
import { pathOf, type RpcMethod, unary } from './methods.js';
import { modelSpecOf, protoSpec } from './specs.js';

const SIGNATURES_FIELD = 'signature_def';

export function predictionService(server: ModelServer, limits: MessageLimits): [string, RpcMethod][] {
  const record = recorder(server);
  const { predict, classify, regress, multiInference, getModelMetadata } = PredictionService.method;
  return [
    [pathOf(PredictionService, predict), predictMethod(server, limits, record)],
    [
      pathOf(PredictionService, classify),
      unary(ClassificationRequestSchema, ClassificationResponseSchema, async (request, call) => {
        const answer = await record('Classify', request.modelSpec?.name, () => {
          const examples = readExamples(request.input);
          return server.classify({ spec: modelSpecOf(request.modelSpec), examples }, call);
        });
        return create(ClassificationResponseSchema, {
          modelSpec: protoSpec(answer.spec),
          result: classificationResult(answer),
        });
      }),
    ],
    [
      pathOf(PredictionService, regress),
      unary(RegressionRequestSchema, RegressionResponseSchema, async (request, call) => {
        const answer = await record('Regress', request.modelSpec?.name, () => {
          const examples = readExamples(request.input);
          return server.regress({ spec: modelSpecOf(request.modelSpec), examples }, call);
        });
        return create(RegressionResponseSchema, {
          modelSpec: protoSpec(answer.spec),
          result: regressionResult(answer),
        });
      }),
    ],
    [
      pathOf(PredictionService, multiInference),
      unary(MultiInferenceRequestSchema, MultiInferenceResponseSchema, async (request, call) => {
        const results = await record('MultiInference', request.tasks[0]?.modelSpec?.name, () => {
          checkTasks(request.tasks);
          const examples = readExamples(request.input);
          // All begin in this turn of the event loop, so all find the same version.
          return Promise.all(request.tasks.map((task) => infer(server, task, examples, call)));
        });
        return create(MultiInferenceResponseSchema, { results });
      }),
    ],
    [
      pathOf(PredictionService, getModelMetadata),
      unary(GetModelMetadataRequestSchema, GetModelMetadataResponseSchema, async (request) => {
        const { name, version, signatures } = await record('GetModelMetadata', request.modelSpec?.name, () =>
          metadataOf(server, request),
        );
        const map = create(SignatureDefMapSchema, { signatureDef: { ...signatures } });
        return create(GetModelMetadataResponseSchema, {
          modelSpec: { name, versionChoice: { case: 'version', value: { value: BigInt(version) } } },
          metadata: { [SIGNATURES_FIELD]: anyPack(SignatureDefMapSchema, map) },
        });
      }),
    ],
  ];
}

type Recorder = <T>(api: Api, model: string | undefined, answer: () => Promise<T> | T) => Promise<T>;

/** Counts requests, with their status. */
const recorder =
  (server: ModelServer): Recorder =>
  async (api, model = '', answer) => {
    const started = performance.now();
    let status: Status | 'OK' = 'OK';
    try {
      return await answer();
    } catch (error) {
      status = statusOf(error).status;
      throw error;
    } finally {
      server.recordRequest(model, api, 'GRPC', status, started);
    }
  };

function metadataOf(
  server: ModelServer,
  { modelSpec, metadataField }: GetModelMetadataRequest,
): ModelMetadata {
  const spec = modelSpecOf(modelSpec);
  if (metadataField.length === 0)
    throw invalidRequest('GetModelMetadataRequest must specify at least one metadata_field');
  for (const field of metadataField)
    if (field !== SIGNATURES_FIELD) throw invalidRequest(`Metadata field ${field} is not supported`);
  return server.metadata(spec);
}

/** The tensors are read once the version is known that they are for, and freed when the answer is written. */
function predictMethod(server: ModelServer, limits: MessageLimits, record: Recorder): RpcMethod {
  const predict = async (request: SerializedPredict, call: RequestLimits): Promise<Parts> => {
    const { spec, outputFilter, inputs } = request;
    using lease = server.lease(spec);
    const tensors = readInputs(inputs, limits);
    const answer = await server.predictWith(lease, tensors, outputFilter, call);
    const parts = writePredictResponse(answer);
    // An output may be an input; the parts are views of it. After an error a queue may still hold the tensors. In both
    // cases the garbage collector frees them.
    const outputs = new Set(Object.values(answer.outputs));
    for (const tensor of Object.values(tensors)) if (!outputs.has(tensor)) tensor.dispose();
    return parts;
  };
  return {
    kind: 'unary',
    answer: (message: Buffer, call: RequestLimits) => {
      const request = readPredict(message);
      return record('Predict', request.spec.name, () => predict(request, call));
    },
  };
}

type Result = { case: 'classificationResult'; value: ClassificationResult } | RegressionCase;
type RegressionCase = { case: 'regressionResult'; value: RegressionResult };

async function infer(
  server: ModelServer,
  { modelSpec, methodName }: InferenceTask,
  examples: readonly Uint8Array[],
  call: RequestLimits,
) {
  const request = { spec: modelSpecOf(modelSpec), examples };
  if (methodName === signatureConstants.classifyMethodName) {
    const answer = await server.classify(request, call);
    const result: Result = { case: 'classificationResult', value: classificationResult(answer) };
    return { modelSpec: protoSpec(answer.spec), result };
  }
  const answer = await server.regress(request, call);
  const result: Result = { case: 'regressionResult', value: regressionResult(answer) };
  return { modelSpec: protoSpec(answer.spec), result };
}

/** The rules of TensorFlow Serving, in its words. */
function checkTasks(tasks: readonly InferenceTask[]): void {
  const { classifyMethodName, regressMethodName } = signatureConstants;
  const seen = new Set<string>();
  const first = tasks[0]?.modelSpec;
  if (!first) throw missingModelSpec();
  for (const { modelSpec, methodName } of tasks) {
    if (!modelSpec) throw missingModelSpec();
    if (modelSpec.name === '') throw invalidRequest('Found ModelSpec with an empty model name.');
    if (modelSpec.name !== first.name)
      throw invalidRequest(
        `All ModelSpecs in a MultiInferenceRequest must access the same model name. Expected name: ${first.name}; ` +
          `Found name: ${modelSpec.name}`,
      );
    const signature = modelSpec.signatureName || DEFAULT_SIGNATURE;
    if (seen.has(signature)) throw invalidRequest(`Duplicate evaluation of signature: ${signature}`);
    seen.add(signature);
    if (methodName !== classifyMethodName && methodName !== regressMethodName)
      throw invalidRequest(`Unsupported signature method_name: ${methodName}`);
  }
}

const classificationResult = ({ classifications }: ClassifyResponse): ClassificationResult =>
  create(ClassificationResultSchema, {
    classifications: classifications.map((classes) => ({
      classes: classes.map(({ label, score }) => ({ label, score })),
    })),
  });

const regressionResult = ({ regressions }: RegressResponse): RegressionResult =>
  create(RegressionResultSchema, { regressions: regressions.map((value) => ({ value })) });
