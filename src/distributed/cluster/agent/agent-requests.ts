/** Request parsing with limits: JSON bodies of bounded size and time, numbers in queries, byte ranges. */
import type { IncomingMessage } from 'node:http';
import { invalid, ShoalError } from '../../../base/errors/errors.js';
import { peerOf } from '../spec/security.js';
import type { BodyBudget } from './blobs/body-budget.js';

export interface BodyLimits {
  readonly maxBytes: number;
  readonly budget: BodyBudget;
  readonly timeoutMs: number;
}

/** The body as JSON; undefined for an empty body. */
export async function readJson(
  request: IncomingMessage,
  { maxBytes, timeoutMs, budget }: BodyLimits,
): Promise<unknown> {
  const tooLarge = () => invalid(`the request body is larger than ${maxBytes} bytes`);
  const announced = Number(request.headers['content-length'] ?? 0);
  if (announced > maxBytes) throw tooLarge();
  const peer = peerOf(request);
  let taken = 0;
  const take = (bytes: number) => {
    budget.take(peer, bytes);
    taken += bytes;
  };
  // A declared size is reserved before the body is read; without one the reservation grows with the body.
  take(announced);
  const timer = setTimeout(() => {
    request.destroy(
      new ShoalError('SHOAL_TIMEOUT', `the request body did not arrive within ${timeoutMs} ms`),
    );
  }, timeoutMs);
  try {
    const chunks: Buffer[] = [];
    let size = 0;
    for await (const chunk of request as AsyncIterable<Buffer>) {
      size += chunk.byteLength;
      if (size > maxBytes) throw tooLarge();
      if (size > taken) take(size - taken);
      chunks.push(chunk);
    }
    const text = new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(chunks));
    return text === '' ? undefined : JSON.parse(text);
  } catch (cause) {
    if (cause instanceof SyntaxError || cause instanceof TypeError) {
      throw invalid('the request body is not valid JSON', { cause });
    }
    throw cause;
  } finally {
    clearTimeout(timer);
    budget.give(peer, taken);
  }
}

/** An integer query parameter; undefined when absent. */
export function countIn(query: URLSearchParams, name: string): number | undefined {
  const text = query.get(name);
  if (text === null) return undefined;
  const value = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
  if (!Number.isSafeInteger(value)) throw invalid(`query parameter ${name} is not a valid integer`);
  return value;
}

export function queryOf(request: IncomingMessage): URLSearchParams {
  const url = request.url ?? '';
  const at = url.indexOf('?');
  return new URLSearchParams(at < 0 ? '' : url.slice(at + 1));
}

export interface BlobRange {
  readonly start: number;
  /** Exclusive. */
  readonly end: number;
}

/**
 * The range `[start, end)` of a Range header: the complete body when there is no header or its form is not
 * supported, undefined when the range is not satisfiable.
 */
export function rangeOf(header: string | undefined, size: number): BlobRange | undefined {
  const match = /^bytes=(\d{0,16})-(\d{0,16})$/.exec(header ?? '');
  if (match === null || match[0] === 'bytes=-') return { start: 0, end: size };
  const [, first = '', last = ''] = match;
  const start = first === '' ? Math.max(0, size - Number(last)) : Number(first);
  const end = first === '' || last === '' ? size : Math.min(size, Number(last) + 1);
  return start < end ? { start, end } : undefined;
}
