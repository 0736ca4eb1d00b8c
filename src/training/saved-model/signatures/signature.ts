/** A signature as a function: named inputs in, named outputs out. */
import { invalid } from '../../../base/errors/errors.js';
import type { SignatureDef } from '../../../base/proto/generated/model_pb.js';
import type { Session } from '../../../tensorflow/session/session.js';
import type { Tensor } from '../../../tensorflow/tensor/tensor.js';
import {
  bindInput,
  entryOf,
  type InputValue,
  type OutputValue,
  resultOf,
  type SignatureEntry,
  type TensorSpec,
} from './signature-values.js';

export interface SignatureType {
  readonly inputs: Readonly<Record<string, InputValue>>;
  readonly outputs: Readonly<Record<string, OutputValue>>;
}
export type SignatureTypes = Readonly<Record<string, SignatureType>>;

export interface CallOptions {
  /** How long the call may take; default: no limit. */
  readonly timeoutMs?: number;
  /** Cancels the call; default: none. */
  readonly signal?: AbortSignal;
}

export interface Signature<T extends SignatureType = SignatureType> {
  (inputs: T['inputs'], options?: CallOptions): Promise<T['outputs']>;
  readonly methodName: string;
  readonly inputs: Readonly<Record<string, TensorSpec>>;
  readonly outputs: Readonly<Record<string, TensorSpec>>;
}

export type Signatures<S extends SignatureTypes> = { readonly [K in keyof S]: Signature<S[K]> };

export interface Calls {
  readonly session: Session;
  /** Runs the call unless the model is closed; `close` waits for its end. */
  track<T>(run: () => Promise<T>): Promise<T>;
}

export function makeSignature(
  { session, track }: Calls,
  name: string,
  def: SignatureDef,
  defaults: ReadonlyMap<string, Tensor> = new Map(),
): Signature {
  const entries = (infos: SignatureDef['inputs']): SignatureEntry[] =>
    Object.entries(infos).map(([key, info]) => entryOf(session.graph, key, info));
  const inputs = entries(def.inputs);
  const outputs = entries(def.outputs);
  const fetches = outputs.map((entry) => entry.outputs);
  const placeholders = inputs.flatMap((entry) => entry.outputs);
  const prepared = session.callable(fetches, placeholders);
  const assemble = (fetched: readonly (readonly Tensor[])[]) =>
    Object.fromEntries(outputs.map((entry, i) => [entry.name, resultOf(entry, fetched[i] ?? [])]));
  const bind = (given: Readonly<Record<string, InputValue>>): Tensor[] => {
    checkNames(name, inputs, given, defaults);
    return inputs.flatMap((entry) =>
      bindInput(name, entry, given[entry.name] ?? (defaults.get(entry.name) as Tensor)),
    );
  };
  const call = (given: Readonly<Record<string, InputValue>> = {}, options?: CallOptions) =>
    track(async () => {
      const values = bind(given);
      if (!options) return assemble(await prepared(...values));
      const feeds = placeholders.map((output, i) => [output, values[i] as Tensor] as const);
      return assemble(await session.run(fetches, { ...options, feeds }));
    });
  const specs = (list: readonly SignatureEntry[]) =>
    Object.fromEntries(list.map(({ name: key, spec }) => [key, spec]));
  return Object.assign(call, { methodName: def.methodName, inputs: specs(inputs), outputs: specs(outputs) });
}

function checkNames(
  signature: string,
  inputs: readonly SignatureEntry[],
  given: Readonly<Record<string, unknown>>,
  defaults: ReadonlyMap<string, unknown>,
): void {
  if (typeof given !== 'object' || given === null || Array.isArray(given))
    throw invalid(`The signature '${signature}' takes an object of inputs by name`);
  const known = inputs.map(({ name }) => name);
  const takes = `It takes ${known.join(', ') || 'none'}.`;
  const unknown = Object.keys(given).filter((name) => !known.includes(name));
  if (unknown.length > 0)
    throw invalid(`The signature '${signature}' has no input ${unknown.map(quoted).join(', ')}`, {
      hint: takes,
    });
  const missing = known.filter((name) => given[name] === undefined && !defaults.has(name));
  if (missing.length > 0)
    throw invalid(`The signature '${signature}' needs the input ${missing.map(quoted).join(', ')}`, {
      hint: takes,
    });
}

const quoted = (name: string): string => `'${name}'`;
