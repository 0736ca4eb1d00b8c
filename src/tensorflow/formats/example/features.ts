/**
 * The JavaScript values of a feature, and the three kinds of lists in the file.
 *
 * number → float, bigint → int64, string and Uint8Array → bytes; one of them, an array of them, or a typed array.
 */
import { invalid } from '../../../base/errors/errors.js';

export type FeatureInput =
  | number
  | bigint
  | string
  | Uint8Array
  | readonly number[]
  | readonly bigint[]
  | readonly (string | Uint8Array)[]
  | Float32Array
  | Float64Array
  | Int32Array
  | BigInt64Array
  | BigUint64Array;

/** A parsed feature; null if it is present without a kind. */
export type FeatureValue = Float32Array | BigInt64Array | Uint8Array[] | null;

export type FeatureList =
  | { readonly kind: 'bytes'; readonly values: readonly (string | Uint8Array)[] }
  | { readonly kind: 'float'; readonly values: Float32Array }
  | {
      readonly kind: 'int64';
      readonly values: BigInt64Array | BigUint64Array;
    };

export function toFeatureList(name: string, input: FeatureInput): FeatureList {
  switch (typeof input) {
    case 'number':
      return { kind: 'float', values: Float32Array.of(input) };
    case 'bigint':
      return { kind: 'int64', values: BigInt64Array.of(input) };
    case 'string':
      return { kind: 'bytes', values: [input] };
  }
  if (input instanceof Uint8Array) return { kind: 'bytes', values: [input] };
  if (input instanceof Float32Array) return { kind: 'float', values: input };
  if (input instanceof Float64Array) return { kind: 'float', values: Float32Array.from(input) };
  if (input instanceof BigInt64Array || input instanceof BigUint64Array)
    return { kind: 'int64', values: input };
  if (input instanceof Int32Array) return { kind: 'int64', values: BigInt64Array.from(input, BigInt) };
  if (Array.isArray(input)) return listOf(name, input);
  throw invalid(`feature ${name} must consist of numbers, bigints, strings or bytes`);
}

function listOf(name: string, values: readonly unknown[]): FeatureList {
  const isBytes = (value: unknown) => typeof value === 'string' || value instanceof Uint8Array;
  if (values.length === 0) {
    throw invalid(`feature ${name} is an empty array, which has no type`, {
      hint: 'pass an empty Float32Array or BigInt64Array, or omit the feature',
    });
  }
  if (values.every((value) => typeof value === 'number'))
    return { kind: 'float', values: Float32Array.from(values) };
  if (values.every((value) => typeof value === 'bigint'))
    return { kind: 'int64', values: BigInt64Array.from(values) };
  if (values.every(isBytes)) return { kind: 'bytes', values: values as (string | Uint8Array)[] };
  throw invalid(`feature ${name} mixes types: use only numbers, only bigints, or only strings and bytes`);
}
