/**
 * Every error that Shoal raises is a ShoalError with a code. A caller branches on the code, a person
 * reads the message (what failed), the place (task, op, device) and the hint (what to do about it).
 *
 * Codes `SHOAL_TF_*` mirror TensorFlow's status codes one to one; the others are Shoal's own.
 */

/** TensorFlow's status codes, by number (TF_Code in tf_status.h). */
export const TF_CODE_NAMES = [
  'OK',
  'CANCELLED',
  'UNKNOWN',
  'INVALID_ARGUMENT',
  'DEADLINE_EXCEEDED',
  'NOT_FOUND',
  'ALREADY_EXISTS',
  'PERMISSION_DENIED',
  'RESOURCE_EXHAUSTED',
  'FAILED_PRECONDITION',
  'ABORTED',
  'OUT_OF_RANGE',
  'UNIMPLEMENTED',
  'INTERNAL',
  'UNAVAILABLE',
  'DATA_LOSS',
  'UNAUTHENTICATED',
] as const;

export type TfCodeName = Exclude<(typeof TF_CODE_NAMES)[number], 'OK'>;

export type ShoalCode =
  | `SHOAL_TF_${TfCodeName}`
  /** A value given by the caller is not acceptable. */
  | 'SHOAL_INVALID_ARGUMENT'
  /** An object was used after it was disposed or closed. */
  | 'SHOAL_DISPOSED'
  /** TensorFlow's library could not be found, fetched, or is not usable. */
  | 'SHOAL_LIBRARY'
  /** This machine or this Node lacks something that was asked for. */
  | 'SHOAL_UNSUPPORTED'
  /** A wait ended by its deadline. */
  | 'SHOAL_TIMEOUT'
  /** An AbortSignal ended the operation. */
  | 'SHOAL_ABORTED'
  /** Bytes on disk or on the wire are not what their format or checksum says. */
  | 'SHOAL_CORRUPT'
  /** Something that should be there is not: a file, a checkpoint, a task. */
  | 'SHOAL_NOT_FOUND'
  /** Something that must not be there is: what is published is never overwritten. */
  | 'SHOAL_ALREADY_EXISTS'
  /** No gradient is known for an op on the path to the loss. */
  | 'SHOAL_NO_GRADIENT'
  /** A number that must be finite is not. */
  | 'SHOAL_NAN'
  /** The cluster specification or the configuration is not coherent. */
  | 'SHOAL_CONFIG'
  /** The caller may not do this: credentials, or a chief that has been replaced. */
  | 'SHOAL_FORBIDDEN'
  /** A peer could not be reached or went away. */
  | 'SHOAL_UNREACHABLE'
  /** Every worker of a cluster died and none came back in time: starting the cluster again may help. */
  | 'SHOAL_WORKERS_LOST'
  /** A disk has no room left. */
  | 'SHOAL_NO_SPACE'
  /** A broken invariant of Shoal itself. */
  | 'SHOAL_INTERNAL';

export interface ErrorDetails {
  /** What to do about it, in a sentence. */
  readonly hint?: string | undefined;
  /** The op (node name) that failed. */
  readonly op?: string | undefined;
  readonly device?: string | undefined;
  /** The task, as `/job:ps/task:1`. */
  readonly task?: string | undefined;
  readonly cause?: unknown;
}

export class ShoalError extends Error {
  override readonly name: string = 'ShoalError';
  readonly code: ShoalCode;
  readonly hint: string | undefined;
  readonly op: string | undefined;
  readonly device: string | undefined;
  readonly task: string | undefined;

  constructor(code: ShoalCode, message: string, details: ErrorDetails = {}) {
    const hint = details.hint ? `\n  hint: ${details.hint}` : '';
    super(`${message}${hint}`, details.cause === undefined ? undefined : { cause: details.cause });
    this.code = code;
    this.hint = details.hint;
    this.op = details.op;
    this.device = details.device;
    this.task = details.task;
  }
}

/** A status that TensorFlow returned. */
export class TensorFlowError extends ShoalError {
  override readonly name = 'TensorFlowError';
  /** TensorFlow's own code, by name. */
  readonly status: TfCodeName;

  constructor(status: TfCodeName, message: string, details: ErrorDetails = {}) {
    super(`SHOAL_TF_${status}`, `${status}: ${message}`, details);
    this.status = status;
  }
}

export function isShoalError(error: unknown, code?: ShoalCode): error is ShoalError {
  return error instanceof ShoalError && (code === undefined || error.code === code);
}

/** An invalid argument, in one call: most checks of user input end here. */
export function invalid(message: string, details?: ErrorDetails): ShoalError {
  return new ShoalError('SHOAL_INVALID_ARGUMENT', message, details);
}

/** The message of anything that was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Its first line, for log lines: the rest may be a stack of TensorFlow's or a list. */
export function firstLineOf(error: unknown): string {
  return messageOf(error).split('\n', 1)[0] as string;
}
