/**
 * The manifest of a checkpoint: what belongs to it, how large and with which sums, and where it was put. It is written
 * last and in one piece. A checkpoint without a manifest does not exist.
 *
 * It is a line of JSON and a line with the crc32c of the first. Manifests are ordered by `sequence`, which grows with
 * every save whatever the clocks say; the step may go back, when somebody restored an older checkpoint and went on.
 */

import * as v from 'valibot';
import { crc32c } from '../bytes/crc32c.js';
import { ShoalError } from '../errors/errors.js';
import { ConsistencySchema } from './consistency.js';
import { damaged, decodeSealed, encodeSealed } from './sealed-json.js';
import { CHUNK_BYTES } from './shard-image.js';

export const MAX_MANIFEST_BYTES = 64 << 20;
/** Version 1 has the state of the input inline, version 2 names a file of the checkpoint. */
const NEWEST_VERSION = 2;
const KIND = "a checkpoint's manifest";

const Count = v.pipe(v.number(), v.safeInteger(), v.minValue(0));
const Crc = v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(0xffffffff));
const Text = (max: number) => v.pipe(v.string(), v.minLength(1), v.maxLength(max));

const FileSchema = v.pipe(
  v.object({
    /** As TensorFlow names it: `model.ckpt-500.data-00000-of-00002`. */
    file: v.pipe(Text(1024), v.regex(/^[^/\0]+$/, 'expected a file name')),
    size: Count,
    crc32c: Crc,
    /** The crc32c of every CHUNK_BYTES, as base64 of little-endian words. */
    chunks: v.pipe(v.string(), v.regex(/^[A-Za-z0-9+/]*={0,2}$/, 'expected base64')),
    /** Who was given a copy when it was saved. */
    places: v.array(Text(300)),
  }),
  v.check(
    ({ size, chunks }) => Buffer.byteLength(chunks, 'base64') === 4 * Math.ceil(size / CHUNK_BYTES),
    'has sums for another size',
  ),
);

export const ManifestSchema = v.object({
  format: v.literal('shoal-checkpoint'),
  version: v.picklist([1, NEWEST_VERSION]),
  sequence: Count,
  step: Count,
  /** Tells apart two attempts at one step; part of every name that belongs to it. */
  attempt: v.pipe(v.string(), v.regex(/^[a-z0-9-]{4,64}$/, 'expected an attempt')),
  /** The prefix of its files: `model.ckpt-500`. */
  prefix: v.pipe(Text(512), v.regex(/^[^/\0]+$/, 'expected a prefix')),
  savedAtMs: Count,
  /** The job that saved it, where a job did. */
  job: v.optional(Text(512)),
  consistency: ConsistencySchema,
  chief: v.object({ task: v.string(), incarnation: Count }),
  shards: Count,
  tensors: Count,
  files: v.array(FileSchema),
  /** How many copies of each data file were wanted beside the first one. */
  replicas: v.optional(Count),
  /** The one of its files that says what input has been consumed, of the same instant. */
  inputFile: v.optional(Text(1024)),
  /** The same in version 1, inline. */
  input: v.nullish(v.unknown()),
});

export type Manifest = v.InferOutput<typeof ManifestSchema>;
export type ManifestFile = v.InferOutput<typeof FileSchema>;

/** Fails for a manifest that could not be read back. */
export function encodeManifest(manifest: Manifest): Uint8Array {
  return encodeSealed(manifest, {
    what: `The manifest of ${manifest.prefix}`,
    maxBytes: MAX_MANIFEST_BYTES,
  });
}

/** @param source the name of the blob, for error messages. */
export function decodeManifest(bytes: Uint8Array, source: string): Manifest {
  if (bytes.byteLength > MAX_MANIFEST_BYTES) {
    throw new ShoalError(
      'SHOAL_UNSUPPORTED',
      `${source} is larger than the ${MAX_MANIFEST_BYTES} bytes that are read of a manifest`,
      { hint: 'The checkpoint exists, but this version of Shoal can not use it.' },
    );
  }
  const value = decodeSealed(bytes, source, KIND);
  const { format, version } = (value ?? {}) as { format?: unknown; version?: unknown };
  if (format === 'shoal-checkpoint' && typeof version === 'number' && version > NEWEST_VERSION) {
    throw new ShoalError(
      'SHOAL_UNSUPPORTED',
      `${source} is in version ${version} of the checkpoint format; this Shoal reads versions up to ${NEWEST_VERSION}`,
      { hint: 'A newer Shoal has saved it: continue with that one, or remove the checkpoint with it.' },
    );
  }
  const result = v.safeParse(ManifestSchema, value);
  if (!result.success) {
    const [issue] = result.issues;
    throw damaged(source, KIND, `${v.getDotPath(issue) ?? 'it'}: ${issue.message}`);
  }
  return result.output;
}

export function encodeChunks(chunks: Uint32Array): string {
  const bytes = Buffer.alloc(chunks.length * 4);
  chunks.forEach((crc, i) => {
    bytes.writeUInt32LE(crc, i * 4);
  });
  return bytes.toString('base64');
}

export function decodeChunks({ chunks }: ManifestFile): Uint32Array {
  const bytes = Buffer.from(chunks, 'base64');
  return Uint32Array.from({ length: bytes.length / 4 }, (_, i) => bytes.readUInt32LE(i * 4));
}

/** An entry for bytes that are at hand. */
export function manifestFile(file: string, bytes: Uint8Array, places: readonly string[]): ManifestFile {
  const count = Math.ceil(bytes.byteLength / CHUNK_BYTES);
  const chunks = Uint32Array.from({ length: count }, (_, i) =>
    crc32c(bytes.subarray(i * CHUNK_BYTES, (i + 1) * CHUNK_BYTES)),
  );
  return {
    file,
    size: bytes.byteLength,
    crc32c: crc32c(bytes),
    chunks: encodeChunks(chunks),
    places: [...places],
  };
}
