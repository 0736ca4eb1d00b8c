/**
 * One loaded version of a model. Requests hold a lease on it while they run; it is freed when it is retired and the last
 * lease has ended.
 */
import type { MetaGraphDef } from '../../../base/proto/generated/model_pb.js';
import type { Session } from '../../../tensorflow/session/session.js';
import type { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { type LoadOptions, openModel } from '../../../training/saved-model/loading/open-model.js';
import { RESERVED_SIGNATURES } from '../../../training/saved-model/signatures/constants.js';
import type { RequestLimits } from '../requests.js';
import { lateError } from '../runs/run-gate.js';
import { ServingError } from '../status.js';
import { type Part, SignaturePlan } from './signature-plan.js';

/** How long closing a session may take after the last request: it waits for native calls that were abandoned. */
const CLOSE_TIMEOUT_MS = 60_000;

export class Servable {
  readonly model: string;
  readonly version: number;
  readonly directory: string;
  readonly signatures: ReadonlyMap<string, SignaturePlan>;
  readonly #session: Session;
  #leases = 0;
  #retired: (() => void) | undefined;
  #closing: Promise<void> | undefined;

  private constructor(
    model: string,
    version: number,
    directory: string,
    session: Session,
    signatures: ReadonlyMap<string, SignaturePlan>,
  ) {
    this.model = model;
    this.version = version;
    this.directory = directory;
    this.#session = session;
    this.signatures = signatures;
  }

  static async load(
    model: string,
    version: number,
    directory: string,
    options: LoadOptions = {},
  ): Promise<Servable> {
    const { session, meta, defaults } = await openModel(directory, { ...options, inBackground: true });
    try {
      const signatures = signaturesOf(meta).map(
        ([name, def]) => [name, new SignaturePlan(session, name, def, defaults.get(def))] as const,
      );
      return new Servable(model, version, directory, session, new Map(signatures));
    } catch (error) {
      await session.close();
      session.graph.dispose();
      throw error;
    }
  }

  /** The number of requests that use this version. */
  get leases(): number {
    return this.#leases;
  }

  /** Keeps the version loaded until the returned function is called, once. */
  lease(): () => void {
    this.#leases += 1;
    return () => {
      this.#leases -= 1;
      if (this.#leases === 0) this.#retired?.();
    };
  }

  /** Runs a signature; values in the order of its inputs. */
  async run(
    plan: SignaturePlan,
    values: readonly Tensor[],
    outputs: readonly Part[],
    { signal, deadline }: RequestLimits = {},
  ): Promise<readonly Tensor[]> {
    const left = deadline === undefined ? undefined : deadline - performance.now();
    if (left !== undefined && left <= 0) throw lateError();
    const options = {
      ...(signal ? { signal } : {}),
      ...(left === undefined ? {} : { timeoutMs: Math.ceil(left) }),
    };
    return plan.prepared(outputs).run(values, options);
  }

  /** Waits until no request uses the version, then frees it. After `timeoutMs` running requests are cancelled. */
  close(timeoutMs: number): Promise<void> {
    this.#closing ??= this.#close(timeoutMs);
    return this.#closing;
  }

  async #close(timeoutMs: number): Promise<void> {
    if (this.#leases > 0) {
      let timer: NodeJS.Timeout | undefined;
      await new Promise<void>((resolve) => {
        this.#retired = resolve;
        timer = setTimeout(resolve, timeoutMs);
      });
      clearTimeout(timer);
    }
    await this.#session.close({ timeoutMs: CLOSE_TIMEOUT_MS });
    this.#session.graph.dispose();
  }
}

const signaturesOf = ({ signatureDef }: MetaGraphDef) =>
  Object.entries(signatureDef).filter(([name]) => !RESERVED_SIGNATURES.has(name));

/** The error of a signature that a request to predict names and the model does not have. */
export const noSignature = (name: string): ServingError =>
  new ServingError('FAILED_PRECONDITION', `Serving signature key "${name}" not found.`);
