/** What publishers and serving processes send each other: JSON over HTTP, and ranges of files. */
import * as v from 'valibot';
import { FilesSchema } from './manifest.js';

export const PREFIX = '/shoal/v1/publish';
/** Files are sent in ranges of so many bytes, each verified before it is written. */
export const RANGE_BYTES = 4 << 20;

const text = v.pipe(v.string(), v.maxLength(4096));
const name = v.pipe(v.string(), v.maxLength(1000));
const version = v.pipe(v.number(), v.safeInteger(), v.minValue(0));
const digest = v.pipe(v.string(), v.regex(/^[0-9a-f]{64}$/));

/** Who publishes, for messages: one line. */
const by = v.pipe(v.string(), v.maxLength(300), v.regex(/^[^\p{Cc}\p{Zl}\p{Zp}]*$/u));

export const BeginSchema = v.variant('kind', [
  v.object({
    kind: v.literal('publish'),
    /** Default: the only model. */
    model: v.optional(name),
    by,
    version,
    digest,
    files: FilesSchema,
  }),
  v.object({ kind: v.literal('rollback'), model: v.optional(name), by, from: version, to: version }),
]);
export type BeginRequest = v.InferOutput<typeof BeginSchema>;

export const BeginReplySchema = v.variant('outcome', [
  /** The target takes the version under this id. */
  v.object({ outcome: v.literal('open'), id: name }),
  /** Another publication of this model is under way. */
  v.object({ outcome: v.literal('busy'), by: text }),
  /** The target has what is asked for. */
  v.object({ outcome: v.literal('has') }),
  /** The target has another content under this number. */
  v.object({ outcome: v.literal('conflict') }),
  /** The version was rolled back. */
  v.object({ outcome: v.literal('withdrawn') }),
  /** The target has a newer version. */
  v.object({ outcome: v.literal('older'), newest: version }),
]);
export type BeginReply = v.InferOutput<typeof BeginReplySchema>;

export const StateSchema = v.object({
  state: v.picklist(['receiving', 'preparing', 'prepared', 'committing', 'committed', 'failed']),
  /** Why it failed. */
  error: v.optional(v.object({ code: text, message: text, hint: v.optional(text) })),
});
export type PublicationState = v.InferOutput<typeof StateSchema>;

const VersionSchema = v.object({
  version,
  /** As in the status of a model; empty if it only lies on the disk. */
  state: text,
  isOnDisk: v.boolean(),
  isWithdrawn: v.boolean(),
});

export const ModelsSchema = v.object({
  models: v.array(v.object({ name, versions: v.array(VersionSchema) })),
});
export type ModelReport = v.InferOutput<typeof ModelsSchema>['models'][number];
