/**
 * The manifest of a checkpoint: its files with their sizes, checksums and places. It is written last and atomically. A
 * checkpoint without a manifest does not exist.
 *
 * It is a line of JSON and a line with the crc32c of the first. Manifests are ordered by `sequence`, which grows with
 * every save, independent of clocks; the step may go back after an older checkpoint was restored.
 */

import * as v from 'valibot';
import { crc32c } from '../../../base/bytes/crc32c.js';
import { describeRange, RELEASE, VERSIONS, versionMismatch } from '../../../base/bytes/versions.js';
import { isShoalError, ShoalError } from '../../../base/errors/errors.js';
import { ConsistencySchema, STORED } from './consistency.js';
import { damagedJson, decodeSealed, encodeSealed } from './sealed-json.js';
import { CHUNK_BYTES } from './shard-image.js';

export const MAX_MANIFEST_BYTES = 64 << 20;
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
    /** The places that got a copy when it was saved. */
    places: v.array(Text(300)),
  }),
  v.check(
    ({ size, chunks }) => Buffer.byteLength(chunks, 'base64') === 4 * Math.ceil(size / CHUNK_BYTES),
    'has checksums for another size',
  ),
);

export const ManifestSchema = v.object({
  format: v.literal('shoal-checkpoint'),
  version: Count,
  /** The release that saved it. */
  release: v.optional(Text(100)),
  sequence: Count,
  /** The number in its name. */
  step: Count,
  /** The global step of its values, if that is known. */
  globalStep: v.optional(Count),
  /** Distinguishes attempts at one step; part of every blob name. */
  attempt: v.pipe(v.string(), v.regex(/^[a-z0-9-]{4,64}$/, 'expected an attempt')),
  /** The prefix of its files: `model.ckpt-500`. */
  prefix: v.pipe(Text(512), v.regex(/^[^/\0]+$/, 'expected a prefix')),
  savedAtMs: Count,
  /** The job that saved it, if any. */
  job: v.optional(Text(512)),
  consistency: ConsistencySchema,
  chief: v.object({ task: v.string(), incarnation: Count }),
  shards: Count,
  tensors: Count,
  files: v.array(FileSchema),
  /** How many copies of each data file were requested in addition to the first. */
  replicas: v.optional(Count),
  /** The file with the input state of the same moment. */
  inputFile: v.optional(Text(1024)),
  /** The same in version 1, inline. */
  input: v.nullish(v.unknown()),
});

export type Manifest = v.InferOutput<typeof ManifestSchema>;
export type ManifestFile = v.InferOutput<typeof FileSchema>;

/** Fails if the manifest is too large to be read back. */
export function encodeManifest(manifest: Manifest): Uint8Array {
  const stored = { ...manifest, consistency: STORED[manifest.consistency] };
  return encodeSealed(stored, {
    what: `The manifest of ${manifest.prefix}`,
    maxBytes: MAX_MANIFEST_BYTES,
  });
}

/** These fields, and the line with the checksum, are the same in all versions: the other fields may be different. */
const VersionSchema = v.object({
  format: v.literal('shoal-checkpoint'),
  version: Count,
  release: v.optional(v.string()),
});

function checkVersion(value: unknown, source: string): void {
  const result = v.safeParse(VersionSchema, value);
  if (!result.success) return;
  const { version, release } = result.output;
  const { oldest, newest } = VERSIONS.checkpoint;
  if (version >= oldest && version <= newest) return;
  const saver =
    release === undefined ? `${version > newest ? 'A newer' : 'An older'} Shoal` : `Shoal ${release}`;
  throw versionMismatch(
    `${saver} saved ${source} with version ${version} of the checkpoint format; ` +
      `this is Shoal ${RELEASE}, which reads ${describeRange(VERSIONS.checkpoint)}`,
    {
      hint: 'The checkpoint is complete and stays as it is. Continue with the Shoal that saved it, or use that to remove the checkpoint.',
    },
  );
}

/** Whether a manifest, or a file that it names, is undamaged, but not one that this release can read. */
export const isOfOtherRelease = (error: unknown): error is ShoalError =>
  isShoalError(error, 'SHOAL_VERSION_MISMATCH') || isShoalError(error, 'SHOAL_UNSUPPORTED');

/** @param source the name of the blob, for error messages. */
export function decodeManifest(bytes: Uint8Array, source: string): Manifest {
  if (bytes.byteLength > MAX_MANIFEST_BYTES) {
    throw new ShoalError(
      'SHOAL_UNSUPPORTED',
      `${source} is larger than ${MAX_MANIFEST_BYTES} bytes, the limit for a manifest`,
      { hint: 'The checkpoint exists, but this version of Shoal cannot use it.' },
    );
  }
  const value = decodeSealed(bytes, source, KIND);
  checkVersion(value, source);
  const result = v.safeParse(ManifestSchema, value);
  if (!result.success) {
    const [issue] = result.issues;
    throw damagedJson(source, KIND, `${v.getDotPath(issue) ?? 'it'}: ${issue.message}`);
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

/** The entry of a file whose bytes are in memory. */
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
