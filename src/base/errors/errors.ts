/**
 * Every error that Shoal throws is a ShoalError. Callers branch on `code`; people read the message (what failed),
 * the location (task, op, device) and the hint (what to do).
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
  /** The caller passed an invalid argument. */
  | 'SHOAL_INVALID_ARGUMENT'
  /** An object was used after it was disposed or closed. */
  | 'SHOAL_DISPOSED'
  /** TensorFlow's library could not be found, downloaded or loaded. */
  | 'SHOAL_LIBRARY'
  /** This machine or this version of Node does not support the requested feature. */
  | 'SHOAL_UNSUPPORTED'
  /** A deadline passed. */
  | 'SHOAL_TIMEOUT'
  /** An AbortSignal aborted the operation. */
  | 'SHOAL_ABORTED'
  /** Data on disk or on the network does not match its format or checksum. */
  | 'SHOAL_CORRUPT'
  /** A file, checkpoint or task was not found. */
  | 'SHOAL_NOT_FOUND'
  /** The target already exists: published data is never overwritten. */
  | 'SHOAL_ALREADY_EXISTS'
  /** An op on the path to the loss has no gradient function. */
  | 'SHOAL_NO_GRADIENT'
  /** A number that must be finite is not. */
  | 'SHOAL_NAN'
  /** The cluster specification or the configuration is inconsistent. */
  | 'SHOAL_CONFIG'
  /** Another process listens on the address of this task. */
  | 'SHOAL_ADDRESS_IN_USE'
  /** The caller is not authorized: wrong credentials, or a chief that has been replaced. */
  | 'SHOAL_FORBIDDEN'
  /** Two tasks, or a task and a checkpoint, are of releases of Shoal that cannot work together. */
  | 'SHOAL_VERSION_MISMATCH'
  /** A peer could not be reached or disconnected. */
  | 'SHOAL_UNREACHABLE'
  /** All workers of a cluster died and none returned in time; restarting the cluster may help. */
  | 'SHOAL_WORKERS_LOST'
  /** The global step fell although the chief has not restored or initialized variables: nothing is saved any more. */
  | 'SHOAL_STEP_FELL'
  /** A disk is full. */
  | 'SHOAL_NO_SPACE'
  /** An invariant of Shoal itself is violated: a bug. */
  | 'SHOAL_INTERNAL';

export interface ErrorDetails {
  /** What to do about it, in a sentence; default: the hint of the cause, if it has one. */
  readonly hint?: string;
  /** The op (node name) that failed; default: none. */
  readonly op?: string;
  /** The device of the op; default: none. */
  readonly device?: string;
  /** The task, as `/job:ps/task:1`; default: none. */
  readonly task?: string;
  /** The error that led to this one; default: none. */
  readonly cause?: unknown;
}

export class ShoalError extends Error {
  override readonly name: string = 'ShoalError';
  readonly code: ShoalCode;
  declare readonly hint: string | undefined;
  declare readonly op: string | undefined;
  declare readonly device: string | undefined;
  declare readonly task: string | undefined;

  constructor(code: ShoalCode, message: string, details: ErrorDetails = {}) {
    const { cause, op, device, task } = details;
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
    const hint = details.hint ?? hintOf(cause);
    // Only fields with a value: Node prints the fields of an error.
    Object.assign(
      this,
      hint && { hint },
      op !== undefined && { op },
      device !== undefined && { device },
      task && { task },
    );
  }
}

/** An error status returned by TensorFlow. */
export class TensorFlowError extends ShoalError {
  override readonly name = 'TensorFlowError';
  /** The name of TensorFlow's status code. */
  readonly status: TfCodeName;

  constructor(status: TfCodeName, message: string, details: ErrorDetails = {}) {
    super(`SHOAL_TF_${status}`, `${status}: ${message}`, details);
    this.status = status;
  }
}

export function isShoalError(error: unknown, code?: ShoalCode): error is ShoalError {
  return error instanceof ShoalError && (code === undefined || error.code === code);
}

/** Creates a SHOAL_INVALID_ARGUMENT error. */
export function invalid(message: string, details?: ErrorDetails): ShoalError {
  return new ShoalError('SHOAL_INVALID_ARGUMENT', message, details);
}

/** The message of any thrown value. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** The message of any thrown value and, on a line of its own, its hint: for logs and terminals. */
export function describeError(error: unknown): string {
  return `${messageOf(error)}${hintLineOf(error)}`;
}

/** The hint of an error as the last line of a log entry; empty if it has none. */
export function hintLineOf(error: unknown): string {
  const hint = hintOf(error);
  return hint ? `\n  hint: ${hint}` : '';
}

/** The hint of the first error that has one: this error, its cause, the cause of that. */
export function hintOf(error: unknown): string | undefined {
  if (isShoalError(error) && error.hint) return error.hint;
  return error instanceof Error && error.cause !== undefined ? hintOf(error.cause) : undefined;
}

/** The first line of the message, for log lines: the rest may be long. */
export function firstLineOf(error: unknown): string {
  return messageOf(error).split('\n', 1)[0] as string;
}
