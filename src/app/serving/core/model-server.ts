/**
 * Answers requests with the models of a manager, whatever protocol they came by. The faces (REST, gRPC) decode a
 * request, call one method here, and encode its answer or the status of its error (`statusOf`).
 */
import type { Tensor } from '../../../tensorflow/tensor/tensor.js';
import type { ModelConfig } from '../config/model-config.js';
import type { Api, Entrypoint, ServingMetrics } from '../metrics/serving-metrics.js';
import type { ModelManager } from '../models/manager.js';
import { noSignature, type Servable } from '../models/servable.js';
import type { Part, SignaturePlan } from '../models/signature-plan.js';
import {
  type ClassifyResponse,
  DEFAULT_SIGNATURE,
  type ExamplesRequest,
  type ModelMetadata,
  type ModelSpec,
  type NamedTensors,
  type PredictRequest,
  type PredictResponse,
  type RegressResponse,
  type RequestLimits,
  type ResolvedSpec,
  type VersionStatus,
} from '../requests.js';
import { invalidRequest, type Status } from '../status.js';
import { checkMethod, classificationsOf, examplesTensor, type Method, regressionsOf } from './inference.js';

/** Runs one signature; with batching several requests share a run. */
export type RunSignature = (
  servable: Servable,
  plan: SignaturePlan,
  values: readonly Tensor[],
  outputs: readonly Part[],
  call: RequestLimits,
  api: Api,
) => Promise<readonly Tensor[]>;

export interface ModelServerOptions {
  readonly models: ModelManager;
  readonly metrics: ServingMetrics;
  readonly run: RunSignature;
  /** Whether classify and regress need a signature with their method name; default: only its inputs and outputs. */
  readonly checksMethodNames?: boolean;
}

/** What a face needs to decode a request: the signature's inputs; valid until `end` is called. */
export interface ServableLease extends Disposable {
  readonly servable: Servable;
  readonly plan: SignaturePlan;
  readonly spec: ResolvedSpec;
}

export class ModelServer {
  readonly models: ModelManager;
  readonly metrics: ServingMetrics;
  readonly #run: RunSignature;
  readonly #checksMethodNames: boolean;

  constructor({ models, metrics, run, checksMethodNames = false }: ModelServerOptions) {
    this.models = models;
    this.metrics = metrics;
    this.#run = run;
    this.#checksMethodNames = checksMethodNames;
  }

  /** Records the end of a request. Names that are no model are counted together: clients may send any number of them. */
  recordRequest(
    model: string,
    api: Api,
    entrypoint: Entrypoint,
    status: Status | 'OK',
    startedMs: number,
  ): void {
    const known = this.models.model(model) ? model : '';
    this.metrics.request(known, api, entrypoint, status, startedMs);
  }

  async predict(request: PredictRequest, call: RequestLimits = {}): Promise<PredictResponse> {
    using lease = this.lease(request.spec);
    return await this.predictWith(lease, request.inputs, request.outputFilter, call);
  }

  /** Predicts with the version that a lease holds: its signature is the one that the inputs were decoded for. */
  async predictWith(
    { servable, plan, spec }: ServableLease,
    inputs: NamedTensors,
    outputFilter: readonly string[] | undefined,
    call: RequestLimits = {},
  ): Promise<PredictResponse> {
    const values = plan.bind(inputs);
    const outputs = plan.choose(outputFilter);
    const results = await this.#run(servable, plan, values, outputs, call, 'Predict');
    return { spec, outputs: named(outputs, results) };
  }

  async classify(request: ExamplesRequest, call: RequestLimits = {}): Promise<ClassifyResponse> {
    using lease = this.#leaseFor('classify', request.spec);
    const outputs = await this.#runExamples(lease, request.examples, call, 'Classify');
    return { spec: lease.spec, classifications: classificationsOf(outputs, request.examples.length) };
  }

  async regress(request: ExamplesRequest, call: RequestLimits = {}): Promise<RegressResponse> {
    using lease = this.#leaseFor('regress', request.spec);
    const outputs = await this.#runExamples(lease, request.examples, call, 'Regress');
    return { spec: lease.spec, regressions: regressionsOf(outputs, request.examples.length) };
  }

  /** The signatures of a model. */
  metadata(spec: ModelSpec): ModelMetadata {
    const servable = this.models.find(spec);
    const signatures = [...servable.signatures].map(([name, { def }]) => [name, def] as const);
    return { name: servable.model, version: servable.version, signatures: Object.fromEntries(signatures) };
  }

  /** The states of a model's versions, the highest first; of one if the specification names one. */
  status(spec: ModelSpec): readonly VersionStatus[] {
    return this.models.status(spec);
  }

  /** Replaces the list of models; resolves when the versions that it asks for serve or have failed. */
  reloadConfig(models: readonly ModelConfig[]): Promise<void> {
    return this.models.reload(models);
  }

  /** Holds the version that a specification names, and its signature. The caller ends the lease. */
  lease(spec: ModelSpec, missing: (signature: string) => Error = noSignature): ServableLease {
    const servable = this.models.find(spec);
    const signatureName = spec.signatureName || DEFAULT_SIGNATURE;
    const plan = servable.signatures.get(signatureName);
    if (!plan) throw missing(signatureName);
    const end = servable.lease();
    return {
      servable,
      plan,
      spec: { name: servable.model, version: servable.version, signatureName },
      [Symbol.dispose]: end,
    };
  }

  /** Unloads all models when their requests have ended. */
  close(): Promise<void> {
    return this.models.close();
  }

  #leaseFor(method: Method, spec: ModelSpec): ServableLease {
    const lease = this.lease(spec, (name) => invalidRequest(`No signature was found with the name: ${name}`));
    try {
      checkMethod(method, lease.plan, this.#checksMethodNames);
      return lease;
    } catch (error) {
      lease[Symbol.dispose]();
      throw error;
    }
  }

  async #runExamples(
    { servable, plan }: ServableLease,
    examples: readonly Uint8Array[],
    call: RequestLimits,
    api: Api,
  ): Promise<NamedTensors> {
    const values = [examplesTensor(examples)];
    this.metrics.examples(servable.model, examples.length);
    const results = await this.#run(servable, plan, values, plan.outputs, call, api);
    return named(plan.outputs, results);
  }
}

const named = (outputs: readonly Part[], tensors: readonly Tensor[]): NamedTensors =>
  Object.fromEntries(outputs.map(({ name }, i) => [name, tensors[i] as Tensor]));
