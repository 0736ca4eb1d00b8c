/**
 * Parses the JSON of requests, which is wider than JSON: NaN, Infinity and -Infinity are numbers. `JSON.parse` reads
 * ordinary text. A second reading marks what it rejects or loses: those tokens, integers beyond 2^53, and whether a
 * number was written with a fraction.
 */
import { randomUUID } from 'node:crypto';
import { messageOf } from '../../../base/errors/errors.js';
import { invalidRequest } from '../status.js';

export type JsonObject = Readonly<Record<string, unknown>>;

/** Begins strings that stand for numbers; no client can know it. */
const MARK = `number ${randomUUID()} `;

/** Tokens outside strings. */
const SPECIAL = /-?(?:Infinity|Inf)\b|NaN\b/g;
const NUMBERS = /-?(?:Infinity|Inf)\b|NaN\b|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/** Longer integers may not be exact as numbers; one with an exponent may be long. */
const LONG_INTEGER = /(?<![\d.])\d{16}|\d[eE]\+?\d/;

/** Longer ones no client writes; with millions of digits an expression fails. */
const ENDLESS_NUMBER = /(?<!\d)\d{1000}/;

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Parses a request, which is an object. */
export function parseRequest(text: string): JsonObject {
  if (text.trim() === '') throw invalidRequest('JSON Parse error: The document is empty');
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    value = /NaN|Inf/.test(text) ? parseAgain(text, SPECIAL) : fail(error, text);
  }
  return checkObject(value);
}

export const hasLongIntegers = (text: string): boolean => LONG_INTEGER.test(text);

/** The same with numbers marked as they were written; see `numberOf` and `isFraction`. */
export const parseExactly = (text: string): JsonObject => {
  if (text.trim() === '') throw invalidRequest('JSON Parse error: The document is empty');
  return checkObject(parseAgain(text, NUMBERS));
};

function parseAgain(text: string, tokens: RegExp): unknown {
  const marked = outsideStrings(text, (part) => {
    if (ENDLESS_NUMBER.test(part)) throw invalidRequest('JSON Parse error: A number has too many digits');
    return part.replace(tokens, `"${MARK}$&"`);
  });
  try {
    return JSON.parse(marked);
  } catch (error) {
    return fail(error, text);
  }
}

/**
 * Replaces what is not in strings. One expression for both would fail for strings of megabytes, and its time would grow with
 * the square of the length if a string has no end.
 */
function outsideStrings(text: string, replace: (part: string) => string): string {
  const parts: string[] = [];
  for (let at = 0; at < text.length; ) {
    const open = text.indexOf('"', at);
    parts.push(replace(text.slice(at, open < 0 ? text.length : open)));
    if (open < 0) break;
    const end = endOfString(text, open);
    parts.push(text.slice(open, end));
    at = end;
  }
  return parts.join('');
}

/** The position after the closing quote of the string that begins at `open`. */
function endOfString(text: string, open: number): number {
  for (let quote = text.indexOf('"', open + 1); quote >= 0; quote = text.indexOf('"', quote + 1)) {
    let escapes = 0;
    while (text[quote - 1 - escapes] === '\\') escapes += 1;
    if (escapes % 2 === 0) return quote + 1;
  }
  return text.length;
}

function fail(error: unknown, text: string): never {
  const [, position] = /position (\d+)/.exec(messageOf(error)) ?? [];
  throw invalidRequest(`JSON Parse error: Invalid value. at offset: ${position ?? text.length}`);
}

function checkObject(value: unknown): JsonObject {
  if (isObject(value)) return value;
  throw invalidRequest(`JSON Value: ${debugText(value)} Is not object`);
}

/** The text of a marked number; undefined if the value is not one. */
export const markedNumber = (value: unknown): string | undefined =>
  typeof value === 'string' && value.startsWith(MARK) ? value.slice(MARK.length) : undefined;

/** A number, marked or not; undefined if the value is not a number. */
export function numberOf(value: unknown): number | undefined {
  const text = markedNumber(value);
  const number = text === undefined ? value : Number(text.replace(/Inf$/, 'Infinity'));
  if (typeof number !== 'number') return undefined;
  // `JSON.parse` reads 1e400 as infinite; the tokens for infinite numbers are marked.
  if (!Number.isFinite(number) && !/^-?Inf|^NaN/.test(text ?? ''))
    throw invalidRequest('JSON Parse error: Number too big to be stored in double.');
  return number;
}

/** An integer of 64 bits; undefined if the value is not an integer. */
export function integerOf(value: unknown): bigint | undefined {
  if (typeof value === 'number') return Number.isInteger(value) ? BigInt(value) : undefined;
  const text = markedNumber(value);
  if (text === undefined) return undefined;
  return exactInteger(text);
}

/** 64 bits have at most 20 digits. */
const MAX_DIGITS = 20;

/** The integer that a text such as `12.50e1` is, without rounding; undefined if it is none, or has more than 64 bits. */
function exactInteger(text: string): bigint | undefined {
  const [, sign, whole = '', fraction = '', exponent = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(text) ?? [];
  if (sign === undefined) return undefined;
  const digits = whole + fraction;
  let start = 0;
  let end = digits.length;
  while (start < end && digits[start] === '0') start += 1;
  while (end > start && digits[end - 1] === '0') end -= 1;
  if (start === end) return 0n;
  const zeros = Number(exponent) - fraction.length + digits.length - end;
  if (zeros < 0 || end - start + zeros > MAX_DIGITS) return undefined;
  return BigInt(sign + digits.slice(start, end) + '0'.repeat(zeros));
}

/** Whether a marked number has a fraction or an exponent, or is none that an integer can be. */
export const isFraction = (text: string): boolean => !/^-?\d+$/.test(text);

const MAX_DEBUG_CHARS = 256;

/** A value as it was sent, for messages: its first characters, however large it is. */
export function debugText(value: unknown): string {
  return startOf(value, MAX_DEBUG_CHARS).slice(0, MAX_DEBUG_CHARS);
}

/** The JSON of a value; what follows the first `most` characters may be missing. */
function startOf(value: unknown, most: number): string {
  const number = markedNumber(value);
  if (number !== undefined) return number;
  if (typeof value === 'string') return JSON.stringify(value.slice(0, most));
  if (Array.isArray(value)) return `[${startOfItems(value, most)}]`;
  if (!isObject(value)) return JSON.stringify(value) ?? 'null';
  return `{${startOfMembers(value, most)}}`;
}

function startOfItems(items: readonly unknown[], most: number): string {
  let text = '';
  for (let at = 0; at < items.length && text.length < most; at++)
    text += `${at > 0 ? ',' : ''}${startOf(items[at], most - text.length)}`;
  return text;
}

function startOfMembers(object: JsonObject, most: number): string {
  let text = '';
  for (const key in object) {
    if (text.length >= most) break;
    const name = JSON.stringify(key.slice(0, most));
    text += `${text === '' ? '' : ','}${name}:${startOf(object[key], most - text.length)}`;
  }
  return text;
}

/** The type of a value as TensorFlow Serving names it. */
export function typeName(value: unknown): string {
  if (value === null) return 'Null';
  if (value === true) return 'True';
  if (value === false) return 'False';
  if (numberOf(value) !== undefined) return 'Number';
  if (typeof value === 'string') return 'String';
  return Array.isArray(value) ? 'Array' : 'Object';
}

/** Bytes are sent as `{"b64": "…"}`. */
export const isBase64 = (value: unknown): value is { readonly b64: string } =>
  isObject(value) && typeof value.b64 === 'string' && Object.keys(value).length === 1;

export function decodeBase64({ b64 }: { readonly b64: string }): Uint8Array {
  const [, digits, padding] = /^([A-Za-z0-9+/_-]*)(={0,2})\s*$/.exec(b64) ?? [];
  const isWhole =
    digits !== undefined && digits.length % 4 !== 1 && (!padding || (digits + padding).length % 4 === 0);
  if (!isWhole) throw invalidRequest('Unable to base64 decode');
  return new Uint8Array(Buffer.from(b64, 'base64'));
}
