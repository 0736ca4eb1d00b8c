/** The examples of a classify or regress request: objects of features, each to a serialized `tf.train.Example`. */
import { encodeExample } from '../../../tensorflow/formats/example/encode.js';
import type { FeatureInput } from '../../../tensorflow/formats/example/features.js';
import { invalidRequest } from '../status.js';
import {
  debugText,
  decodeBase64,
  integerOf,
  isBase64,
  isFraction,
  isObject,
  type JsonObject,
  markedNumber,
  numberOf,
  typeName,
} from './json-text.js';

type Kind = 'bytes' | 'float' | 'int64';

/** `request` is parsed exactly: 1 is an integer, 1.0 is not. */
export function examplesOf(request: JsonObject): readonly Uint8Array[] {
  const { context, examples } = request;
  const fail = (what: string) => invalidRequest(`JSON Value: ${debugText(request)} ${what}`);
  if (examples === undefined)
    throw fail("When method is classify, key 'examples' is expected and was not found");
  if (!Array.isArray(examples)) throw fail("Expecting 'examples' value to be an list/array");
  if (examples.length === 0) throw fail("'examples' value is an empty array");
  // Merged messages: the features of an example replace those of the context.
  const shared = context === undefined ? new Uint8Array() : serialize(context);
  return examples.map((example) => {
    const own = serialize(example);
    return shared.length === 0 ? own : Buffer.concat([shared, own]);
  });
}

function serialize(example: unknown): Uint8Array {
  if (!isObject(example))
    throw invalidRequest(`Example must be JSON object but got JSON ${typeName(example)}`);
  const features = Object.entries(example).flatMap(([name, content]): [string, FeatureInput][] => {
    const values = Array.isArray(content) ? (content as unknown[]) : [content];
    return values.length === 0 ? [] : [[name, featureOf(name, values)]];
  });
  return encodeExample(Object.fromEntries(features));
}

function featureOf(name: string, values: readonly unknown[]): FeatureInput {
  const kind = kindOf(name, values[0]);
  for (const value of values) {
    if (kindOf(name, value) !== kind)
      throw invalidRequest(`Unexpected element type in feature: ${name} expecting type: ${kind}`);
  }
  switch (kind) {
    case 'float':
      return Float32Array.from(values, (value) => numberOf(value) as number);
    case 'int64':
      return BigInt64Array.from(values, (value) => int64Of(name, value));
    case 'bytes':
      return values.map((value) => (isBase64(value) ? decodeBase64(value) : (value as string)));
  }
}

function kindOf(name: string, value: unknown): Kind {
  const number = markedNumber(value);
  if (number !== undefined) return isFraction(number) ? 'float' : 'int64';
  if (typeof value === 'boolean') return 'int64';
  if (typeof value === 'string' || isBase64(value)) return 'bytes';
  throw invalidRequest(`Feature: ${name} has element with unexpected JSON type: ${typeName(value)}`);
}

function int64Of(name: string, value: unknown): bigint {
  if (typeof value === 'boolean') return value ? 1n : 0n;
  const integer = integerOf(value);
  if (integer === undefined || integer !== BigInt.asIntN(64, integer))
    throw invalidRequest(`Feature: ${name} has uint64_t element. Only int64_t is supported.`);
  return integer;
}
