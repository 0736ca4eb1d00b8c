/**
 * The errors of the server, with TensorFlow's canonical status. The faces (REST, gRPC) translate the status to their
 * own codes; messages that TensorFlow Serving has too are in its words, because clients match them.
 */
import {
  isShoalError,
  messageOf,
  type ShoalCode,
  ShoalError,
  TF_CODE_NAMES,
  type TfCodeName,
} from '../../base/errors/errors.js';

export type Status = TfCodeName;

/** An error with a canonical status. Its code is `SHOAL_TF_` and the status. */
export class ServingError extends ShoalError {
  override readonly name = 'ServingError';
  readonly status: Status;

  constructor(
    status: Status,
    message: string,
    details: { readonly cause?: unknown; readonly hint?: string } = {},
  ) {
    super(`SHOAL_TF_${status}`, message, details);
    this.status = status;
  }
}

const STATUS_OF_CODE: Readonly<Partial<Record<ShoalCode, Status>>> = {
  SHOAL_INVALID_ARGUMENT: 'INVALID_ARGUMENT',
  SHOAL_DISPOSED: 'UNAVAILABLE',
  SHOAL_UNSUPPORTED: 'UNIMPLEMENTED',
  SHOAL_TIMEOUT: 'DEADLINE_EXCEEDED',
  SHOAL_ABORTED: 'CANCELLED',
  SHOAL_CORRUPT: 'DATA_LOSS',
  SHOAL_NOT_FOUND: 'NOT_FOUND',
  SHOAL_CONFIG: 'INVALID_ARGUMENT',
  SHOAL_ALREADY_EXISTS: 'ALREADY_EXISTS',
  SHOAL_FORBIDDEN: 'UNAUTHENTICATED',
  SHOAL_NO_SPACE: 'RESOURCE_EXHAUSTED',
  SHOAL_UNREACHABLE: 'UNAVAILABLE',
};

export interface StatusAndMessage {
  readonly status: Status;
  readonly message: string;
}

/** The status of any thrown value, and its message without the name of the status. */
export function statusOf(error: unknown): StatusAndMessage {
  if (!isShoalError(error)) return { status: 'INTERNAL', message: messageOf(error) };
  const own = error.code.startsWith('SHOAL_TF_')
    ? (error.code.slice('SHOAL_TF_'.length) as Status)
    : undefined;
  const status = own ?? STATUS_OF_CODE[error.code] ?? 'INTERNAL';
  const prefix = `${status}: `;
  const { message } = error;
  return { status, message: message.startsWith(prefix) ? message.slice(prefix.length) : message };
}

/** The number of a status, which is also its code in gRPC. */
export const statusNumber = (status: Status | 'OK'): number => TF_CODE_NAMES.indexOf(status);

/** TensorFlow Serving's HTTP codes. */
const HTTP_OF_STATUS: Readonly<Record<Status, number>> = {
  CANCELLED: 499,
  UNKNOWN: 500,
  INVALID_ARGUMENT: 400,
  DEADLINE_EXCEEDED: 504,
  NOT_FOUND: 404,
  ALREADY_EXISTS: 409,
  PERMISSION_DENIED: 403,
  RESOURCE_EXHAUSTED: 429,
  FAILED_PRECONDITION: 400,
  ABORTED: 409,
  OUT_OF_RANGE: 400,
  UNIMPLEMENTED: 501,
  INTERNAL: 500,
  UNAVAILABLE: 503,
  DATA_LOSS: 500,
  UNAUTHENTICATED: 401,
};

export const httpOf = (status: Status): number => HTTP_OF_STATUS[status];

export const invalidRequest = (message: string): ServingError =>
  new ServingError('INVALID_ARGUMENT', message);
