/** The wire format between agents: schemas for all incoming data, and the encoding of errors. */
import * as v from 'valibot';
import {
  type ErrorDetails,
  isShoalError,
  messageOf,
  type ShoalCode,
  ShoalError,
  TF_CODE_NAMES,
} from '../../../base/errors/errors.js';
import { isTaskId, type TaskId } from '../spec/task-id.js';

const MAX_MEMBERS = 20_000;

const Text = (max: number) => v.pipe(v.string(), v.maxLength(max));
const Count = v.pipe(v.number(), v.safeInteger(), v.minValue(0));
const Task = v.custom<TaskId>(
  (value) => typeof value === 'string' && isTaskId(value),
  'expected a task such as /job:ps/task:0',
);
const Hostport = Text(300);

export const IdentitySchema = v.object({ task: Task, incarnation: Count, nonce: Text(64) });

const entry = {
  ...IdentitySchema.entries,
  first: Count,
  agentAddress: Hostport,
  serverAddress: v.nullable(Hostport),
  host: Text(300),
  pid: Count,
  left: v.boolean(),
  beat: Count,
  step: v.nullable(v.pipe(v.number(), v.safeInteger())),
};

export const MessageSchema = v.object({
  from: v.object(entry),
  digest: Text(64),
  lost: v.pipe(v.array(IdentitySchema), v.maxLength(MAX_MEMBERS)),
  members: v.pipe(
    v.array(
      v.object({
        ...entry,
        status: v.picklist(['alive', 'suspect', 'dead', 'left']),
        goneMs: v.optional(Count),
      }),
    ),
    v.maxLength(MAX_MEMBERS),
  ),
});

/** A membership message with the name of its cluster. */
export const ExchangeSchema = v.object({ cluster: Text(200), message: MessageSchema });

/** The report of a process that its main thread is blocked. */
export const PulseSchema = v.object({ cluster: Text(200), from: IdentitySchema });

export const OrderSchema = v.object({
  cluster: Text(200),
  from: IdentitySchema,
  payload: v.optional(v.unknown()),
});

export const OrderName = v.pipe(
  v.string(),
  v.regex(/^[a-z][a-z0-9-]{0,63}$/, 'expected a name of lower-case letters, digits and -'),
);

export const HealthSchema = v.object({
  cluster: v.string(),
  task: Task,
  incarnation: Count,
  pid: Count,
  host: v.string(),
  uptimeMs: v.number(),
});
export type TaskHealth = v.InferOutput<typeof HealthSchema>;

export const StatusSchema = v.object({
  cluster: v.string(),
  epoch: Count,
  chief: v.nullable(Task),
  self: IdentitySchema,
  members: v.array(
    v.object({
      ...entry,
      status: v.picklist(['alive', 'suspect', 'dead', 'left']),
      /** Time since the answering task last heard from it. */
      silentMs: v.number(),
      /** How long its main thread has been blocked, if another thread of it reports that. */
      busyMs: v.optional(v.number()),
    }),
  ),
});
export type ClusterStatus = v.InferOutput<typeof StatusSchema>;

export const BlobInfoSchema = v.object({
  name: v.string(),
  size: Count,
  modifiedMs: v.number(),
  etag: v.string(),
});
export const BlobListSchema = v.object({ blobs: v.array(BlobInfoSchema), next: v.nullable(v.string()) });
export const UploadSchema = v.object({ offset: Count });
export const DigestSchema = v.object({ size: Count, crc32c: Count });

const CODES: ReadonlySet<string> = new Set<ShoalCode>([
  ...TF_CODE_NAMES.filter((name) => name !== 'OK').map((name) => `SHOAL_TF_${name}` as ShoalCode),
  'SHOAL_INVALID_ARGUMENT',
  'SHOAL_DISPOSED',
  'SHOAL_LIBRARY',
  'SHOAL_UNSUPPORTED',
  'SHOAL_TIMEOUT',
  'SHOAL_ABORTED',
  'SHOAL_CORRUPT',
  'SHOAL_NOT_FOUND',
  'SHOAL_ALREADY_EXISTS',
  'SHOAL_NO_GRADIENT',
  'SHOAL_NAN',
  'SHOAL_CONFIG',
  'SHOAL_ADDRESS_IN_USE',
  'SHOAL_FORBIDDEN',
  'SHOAL_VERSION_MISMATCH',
  'SHOAL_UNREACHABLE',
  'SHOAL_WORKERS_LOST',
  'SHOAL_NO_SPACE',
  'SHOAL_INTERNAL',
]);

const ErrorSchema = v.object({
  error: v.object({
    code: v.string(),
    message: v.string(),
    hint: v.optional(v.string()),
    op: v.optional(v.string()),
    device: v.optional(v.string()),
    task: v.optional(v.string()),
  }),
});

const STATUS: Partial<Record<ShoalCode, number>> = {
  SHOAL_INVALID_ARGUMENT: 400,
  SHOAL_FORBIDDEN: 403,
  SHOAL_NOT_FOUND: 404,
  SHOAL_VERSION_MISMATCH: 409,
  SHOAL_CORRUPT: 422,
  SHOAL_UNREACHABLE: 503,
  SHOAL_TIMEOUT: 504,
  SHOAL_NO_SPACE: 507,
};

/** An error as HTTP status and body. Of an error that is not a ShoalError only the message is sent. */
export function encodeError(error: unknown): { readonly status: number; readonly body: string } {
  const shoal = isShoalError(error) ? error : new ShoalError('SHOAL_INTERNAL', messageOf(error));
  const { code, message, hint, op, device, task } = shoal;
  return {
    status: STATUS[code] ?? 500,
    body: JSON.stringify({ error: { code, message, hint, op, device, task } }),
  };
}

/** The error that a peer sent, with the peer's name added; undefined when the body is not an error. */
export function decodeError(body: string, peer: string, details: ErrorDetails = {}): ShoalError | undefined {
  const result = v.safeParse(v.pipe(v.string(), v.parseJson(), ErrorSchema), body);
  if (!result.success) return undefined;
  const { code, message, ...rest } = result.output.error;
  const known = CODES.has(code) ? (code as ShoalCode) : 'SHOAL_INTERNAL';
  return new ShoalError(known, `${peer}: ${message}`, { ...details, ...rest });
}

/** Validates a value received over the wire; `what` names it in the error. */
export function validated<S extends v.GenericSchema>(
  schema: S,
  value: unknown,
  what: string,
): v.InferOutput<S> {
  const result = v.safeParse(schema, value);
  if (result.success) return result.output;
  const issue = result.issues[0];
  const path = v.getDotPath(issue as v.BaseIssue<unknown>);
  throw new ShoalError(
    'SHOAL_INVALID_ARGUMENT',
    `${what}${path === null ? '' : `.${path}`}: ${issue.message}`,
  );
}
