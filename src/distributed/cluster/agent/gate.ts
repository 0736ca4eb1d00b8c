/** Admits requests with credentials, within the limits. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { ShoalError } from '../../../base/errors/errors.js';
import { isAuthorised, type Security } from '../spec/security.js';
import type { VersionCheck } from './version-check.js';
import { encodeError } from './wire.js';

export interface GateLimits {
  /** Concurrent requests of all kinds; further ones get 503. */
  readonly maxRequests: number;
  /** Concurrent blob transfers. */
  readonly maxTransfers: number;
}

/** Rejects unauthorized requests, those of other releases, and all requests beyond the limits. */
export class Gate {
  active = 0;
  #transfers = 0;
  #transferredAt = Number.NEGATIVE_INFINITY;

  constructor(
    readonly security: Security,
    readonly limits: GateLimits,
    readonly mismatchOf: VersionCheck,
    /** Called with the connection of every request that has credentials. */
    readonly onAuthorised: (socket: Socket) => void,
  ) {}

  /** When blobs were last read or written by a request, by `performance.now`; never: minus infinity. */
  get transferredAt(): number {
    return this.#transfers > 0 ? performance.now() : this.#transferredAt;
  }

  /** The response to a request that is not admitted; undefined if it is. */
  refusalOf(request: IncomingMessage): { readonly status: number; readonly body: string } | undefined {
    if (!isAuthorised(this.security, request)) return { status: 401, body: '{"error":"unauthorized"}' };
    this.onAuthorised(request.socket);
    const mismatch = this.mismatchOf(request);
    if (mismatch !== undefined) return encodeError(mismatch);
    const { maxRequests, maxTransfers } = this.limits;
    if (this.active < maxRequests && !(isTransfer(request) && this.#transfers >= maxTransfers))
      return undefined;
    const busy = new ShoalError('SHOAL_UNREACHABLE', 'too many concurrent requests; try again later');
    return { status: 503, body: encodeError(busy).body };
  }

  admits(request: IncomingMessage, response: ServerResponse): boolean {
    const refusal = this.refusalOf(request);
    if (refusal !== undefined) {
      deny(response, refusal.status, refusal.body);
      return false;
    }
    this.active++;
    if (isTransfer(request)) this.#transfers++;
    response.once('close', () => {
      this.active--;
      if (!isTransfer(request)) return;
      this.#transfers--;
      this.#transferredAt = performance.now();
    });
    return true;
  }
}

const isTransfer = ({ url = '' }: IncomingMessage): boolean => /^\/(blobs|uploads|digests)\b/.test(url);

/** Responds without reading the request body, and closes the connection. */
export function deny(response: ServerResponse, status: number, body: string): void {
  response.writeHead(status, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
    ...(status === 503 && { 'retry-after': '1' }),
    connection: 'close',
  });
  response.end(body);
}
