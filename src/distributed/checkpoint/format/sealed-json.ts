/** A line of JSON and a line with its crc32c, to detect damage and truncation. */
import { crc32c } from '../../../base/bytes/crc32c.js';
import { messageOf, ShoalError } from '../../../base/errors/errors.js';

export interface SealOptions {
  /** For error messages: "the manifest of model.ckpt-500". */
  readonly what: string;
  /** The limit of readers. A writer that exceeds it must fail. */
  readonly maxBytes: number;
  readonly hint?: string;
}

const SEAL_BYTES = 10;

export function encodeSealed(value: unknown, { what, maxBytes, hint }: SealOptions): Uint8Array {
  let line: Buffer;
  try {
    line = Buffer.from(JSON.stringify(value));
  } catch (cause) {
    // JSON above the maximum string length of V8 is a RangeError.
    throw new ShoalError('SHOAL_INVALID_ARGUMENT', `${what} cannot be written: ${messageOf(cause)}`, {
      cause,
      hint,
    });
  }
  if (line.byteLength + SEAL_BYTES > maxBytes) {
    throw new ShoalError(
      'SHOAL_INVALID_ARGUMENT',
      `${what} has ${line.byteLength + SEAL_BYTES} bytes; the limit is ${maxBytes}`,
      { hint },
    );
  }
  return Buffer.concat([line, Buffer.from(sealOf(line))]);
}

/** @param source the name of the blob, @param kind what it should be; both for error messages. */
export function decodeSealed(bytes: Uint8Array, source: string, kind: string): unknown {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const end = text.lastIndexOf(0x0a, text.length - 2);
  const line = text.subarray(0, Math.max(0, end));
  if (end < 0 || text.subarray(end).toString('latin1') !== sealOf(line))
    throw damagedJson(source, kind, 'its checksum does not match');
  try {
    return JSON.parse(line.toString('utf8'));
  } catch (cause) {
    throw damagedJson(source, kind, messageOf(cause));
  }
}

export function damagedJson(source: string, kind: string, why: string): ShoalError {
  return new ShoalError('SHOAL_CORRUPT', `${source} is not ${kind}: ${why}`, {
    hint: 'Another task may hold a good copy; `shoal checkpoint verify` checks all of them.',
  });
}

const sealOf = (line: Uint8Array): string => `\n${crc32c(line).toString(16).padStart(8, '0')}\n`;
