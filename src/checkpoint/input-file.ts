/**
 * The state of the input that belongs to a checkpoint, as a file of the checkpoint: `model.ckpt-500.input`. It grows with
 * the number of data shards, so it is no part of the manifest. It names the index that it was saved with: a file of
 * another checkpoint with the same prefix is not taken for it.
 */
import * as v from 'valibot';
import { ShoalError } from '../errors/errors.js';
import { indexFile } from '../formats/tensor-bundle/naming.js';
import type { Manifest } from './manifest.js';
import { damaged, decodeSealed, encodeSealed } from './sealed-json.js';
import type { VerifiedReader } from './verified-reader.js';

/** Below the longest string of V8, which JSON is parsed from. */
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
    hint: 'The input has too many shards: give it fewer and larger ones.',
  });
}

export function decodeInput(bytes: Uint8Array, source: string): InputState {
  const value = decodeSealed(bytes, source, KIND);
  const { version } = (value ?? {}) as { version?: unknown };
  if (typeof version === 'number' && version > VERSION) {
    throw new ShoalError(
      'SHOAL_UNSUPPORTED',
      `${source} is in version ${version} of its format; this Shoal reads version ${VERSION}`,
      { hint: 'A newer Shoal has saved it: use that one.' },
    );
  }
  const result = v.safeParse(InputSchema, value);
  if (result.success) return result.output;
  const [issue] = result.issues;
  throw damaged(source, KIND, `${v.getDotPath(issue) ?? 'it'}: ${issue.message}`);
}

/** The state of the input in a checkpoint; null where it has none. */
export async function readInput(reader: VerifiedReader, manifest: Manifest): Promise<unknown> {
  const { inputFile: file, prefix } = manifest;
  // Manifests of version 1 have it inline.
  if (file === undefined) return manifest.input ?? null;
  const size = await reader.size(file);
  if (size > MAX_INPUT_BYTES) {
    throw new ShoalError(
      'SHOAL_UNSUPPORTED',
      `${file} has ${size} bytes; at most ${MAX_INPUT_BYTES} are read`,
    );
  }
  const { index, state } = decodeInput(await reader.read(file, 0, size), file);
  if (manifest.files.find((entry) => entry.file === indexFile(prefix))?.crc32c !== index)
    throw damaged(file, KIND, 'it belongs to another checkpoint');
  return state;
}
