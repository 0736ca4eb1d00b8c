/** The values of gRPC's headers. */
import { ServingError, type StatusAndMessage, statusNumber } from '../status.js';

const UNIT_MS: Readonly<Record<string, number>> = {
  H: 3_600_000,
  M: 60_000,
  S: 1000,
  m: 1,
  u: 1e-3,
  n: 1e-6,
};

/** The milliseconds of `grpc-timeout`; undefined without one. */
export function timeoutMs(value: string | undefined): number | undefined {
  if (value === undefined) return undefined;
  const [, digits, unit] = /^(\d{1,8})([HMSmun])$/.exec(value) ?? [];
  if (digits === undefined || unit === undefined)
    throw new ServingError('INVALID_ARGUMENT', `grpc-timeout ${JSON.stringify(value)} is no duration`);
  return Number(digits) * (UNIT_MS[unit] as number);
}

/** Header blocks of more than 8 KB are refused by many clients. */
const MAX_MESSAGE = 2000;

/** `grpc-message`: percent-encoded UTF-8. */
export function encodeMessage(message: string): string {
  const text = message.length > MAX_MESSAGE ? `${message.slice(0, MAX_MESSAGE)}…` : message;
  let encoded = '';
  for (const byte of Buffer.from(text)) {
    const isPlain = byte >= 0x20 && byte <= 0x7e && byte !== 0x25;
    encoded += isPlain ? String.fromCharCode(byte) : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`;
  }
  return encoded;
}

export const trailersOf = ({ status, message }: StatusAndMessage): Record<string, string> => ({
  'grpc-status': String(statusNumber(status)),
  'grpc-message': encodeMessage(message),
});

export const OK_TRAILERS: Readonly<Record<string, string>> = { 'grpc-status': '0' };
