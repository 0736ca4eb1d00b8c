/**
 * The input state of a checkpoint, in a file of its own: `model.ckpt-500.input`. It grows with the number of data
 * shards, so it is not part of the manifest. It holds the crc32c of its checkpoint's index, which detects the file of
 * another checkpoint with the same prefix.
 */
import * as v from 'valibot';
import { RELEASE, versionMismatch } from '../../../base/bytes/versions.js';
import { ShoalError } from '../../../base/errors/errors.js';
import { indexFile } from '../../../tensorflow/formats/tensor-bundle/naming.js';
import type { Manifest } from '../format/manifest.js';
import { damagedJson, decodeSealed, encodeSealed } from '../format/sealed-json.js';
import type { VerifiedReader } from './verified-reader.js';

/** Below the maximum string length of V8: JSON is parsed from a string. */
export const MAX_INPUT_BYTES = 384 << 20;
const VERSION = 1;
const KIND = "a checkpoint's input state";

const InputSchema = v.object({
  format: v.literal('shoal-input'),
  version: v.literal(VERSION),
  /** The crc32c of the index of the same checkpoint. */
  index: v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(0xffffffff)),
  state: v.unknown(),
});

export type InputState = Pick<v.InferOutput<typeof InputSchema>, 'index' | 'state'>;

export const inputFile = (prefix: string): string => `${prefix}.input`;

export function encodeInput({ index, state }: InputState, prefix: string): Uint8Array {
  const value = { format: 'shoal-input', version: VERSION, index, state };
  return encodeSealed(value, {
    what: `The input state of ${prefix}`,
    maxBytes: MAX_INPUT_BYTES,
    hint: 'The input has too many shards: use fewer, larger ones.',
  });
}

export function decodeInput(bytes: Uint8Array, source: string): InputState {
  const value = decodeSealed(bytes, source, KIND);
  const { version } = (value ?? {}) as { version?: unknown };
  if (typeof version === 'number' && version > VERSION) {
    throw versionMismatch(
      `${source} has version ${version} of the format of input states; this is Shoal ${RELEASE}, which reads version ${VERSION}`,
      { hint: 'It was saved by a newer Shoal: continue with that one.' },
    );
  }
  const result = v.safeParse(InputSchema, value);
  if (result.success) return result.output;
  const [issue] = result.issues;
  throw damagedJson(source, KIND, `${v.getDotPath(issue) ?? 'it'}: ${issue.message}`);
}

/** The input state of a checkpoint; null if it has none. */
export async function readInput(reader: VerifiedReader, manifest: Manifest): Promise<unknown> {
  const { inputFile: file, prefix } = manifest;
  // Manifests of version 1 have it inline.
  if (file === undefined) return manifest.input ?? null;
  const size = await reader.size(file);
  if (size > MAX_INPUT_BYTES) {
    throw new ShoalError('SHOAL_UNSUPPORTED', `${file} has ${size} bytes; the limit is ${MAX_INPUT_BYTES}`);
  }
  const { index, state } = decodeInput(await reader.read(file, 0, size), file);
  if (manifest.files.find((entry) => entry.file === indexFile(prefix))?.crc32c !== index)
    throw damagedJson(file, KIND, 'it belongs to another checkpoint');
  return state;
}
