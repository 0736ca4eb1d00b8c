/**
 * Who sees the page. With a token: a browser that has logged in, by a cookie that is derived from the token and good for
 * nothing else. With certificates: whoever has one. Without credentials, on loopback only: this machine.
 *
 * A request of another web site, or to a name that is not of this machine, is refused first: after DNS rebinding the page
 * of a stranger would have the same origin.
 */
import { createHmac } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import { isAuthorised, type Security, sameSecret } from '../../../distributed/cluster/spec/security.js';

export type AccessVerdict =
  | { readonly kind: 'admitted' }
  | { readonly kind: 'login' }
  | { readonly kind: 'refused'; readonly status: number; readonly why: string };

const COOKIE_SECS = 12 * 3600;

export class Access {
  readonly #security: Security;
  readonly #hosts: () => Iterable<string>;
  readonly #now: () => number;

  /** @param hosts the names of this machine, beside its addresses. */
  constructor(security: Security, hosts: () => Iterable<string>, now: () => number = Date.now) {
    this.#security = security;
    this.#hosts = hosts;
    this.#now = now;
  }

  judge(request: IncomingMessage): AccessVerdict {
    const { headers } = request;
    const host = nameOf(headers.host);
    if (host === undefined || !this.#isOwn(host))
      return refused(421, 'this host name is not one of this task; use its address');
    if (!isOwnSite(request, this.#security.kind === 'tls'))
      return refused(403, 'a request from another web site; open the address itself');
    switch (this.#security.kind) {
      case 'none':
        return { kind: 'admitted' };
      case 'tls':
        return isAuthorised(this.#security, request)
          ? { kind: 'admitted' }
          : refused(401, 'the page needs a certificate of the cluster');
      case 'token':
        return isAuthorised(this.#security, request) || this.#hasCookie(headers.cookie)
          ? { kind: 'admitted' }
          : { kind: 'login' };
    }
  }

  #isOwn(host: string): boolean {
    if (isLoopbackName(host)) return true;
    if (this.#security.kind === 'none') return false;
    if (isIP(host) !== 0) return true;
    return [...this.#hosts()].some((name) => name.toLowerCase() === host);
  }

  /** The cookie of a login; undefined if the text is neither the token nor the code. */
  logIn(given: string, isSecure: boolean): string | undefined {
    const { token, code } = this.#secrets();
    if (token === undefined) return undefined;
    const isToken = sameSecret(given, token);
    const isCode = sameSecret(given.toLowerCase().replace(/[\s-]/g, ''), code.replaceAll('-', ''));
    if (!isToken && !isCode) return undefined;
    const expires = Math.floor(this.#now() / 1000) + COOKIE_SECS;
    const value = `${expires}.${seal(token, String(expires))}`;
    return [
      `${cookieName(token)}=${value}`,
      'Path=/page',
      'HttpOnly',
      'SameSite=Strict',
      `Max-Age=${COOKIE_SECS}`,
      ...(isSecure ? ['Secure'] : []),
    ].join('; ');
  }

  #secrets(): { readonly token: string | undefined; readonly code: string } {
    return this.#security.kind === 'token'
      ? { token: this.#security.token, code: pageCode(this.#security.token) }
      : { token: undefined, code: '' };
  }

  #hasCookie(header: string | undefined): boolean {
    const { token } = this.#secrets();
    if (token === undefined || header === undefined) return false;
    const name = cookieName(token);
    const [, value] =
      header
        .split(';')
        .map((pair) => pair.trim().split('='))
        .find(([key]) => key === name) ?? [];
    const [expires = '', sealed = ''] = value?.split('.') ?? [];
    if (!/^\d{1,12}$/.test(expires) || Number(expires) * 1000 < this.#now()) return false;
    return sameSecret(sealed, seal(token, expires));
  }
}

const refused = (status: number, why: string): AccessVerdict => ({ kind: 'refused', status, why });

/** The name in a Host header, in lower case, without port and brackets. */
function nameOf(host: string | undefined): string | undefined {
  const [, bracketed, plain] = /^(?:\[([0-9a-f:.]+)\]|([^:[\]/@\s]+))(?::\d+)?$/i.exec(host ?? '') ?? [];
  return (bracketed ?? plain)?.toLowerCase();
}

const isLoopbackName = (host: string): boolean =>
  host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host);

/** Browsers send Sec-Fetch-Site to secure origins and loopback, and Origin with each form. */
function isOwnSite({ headers }: IncomingMessage, isTls: boolean): boolean {
  const site = headers['sec-fetch-site'];
  if (site !== undefined && site !== 'same-origin' && site !== 'none') return false;
  const { origin, host } = headers;
  return origin === undefined || origin === `${isTls ? 'https' : 'http'}://${host}`;
}

const seal = (token: string, text: string): string =>
  createHmac('sha256', token).update(`shoal page ${text}`).digest('base64url');

/** Cookies are shared by all ports of a host: each cluster has a name of its own, the same at all its tasks. */
const cookieName = (token: string): string =>
  `shoal-page-${seal(token, 'name').slice(0, 12).replace(/\W/g, '0')}`;

/** A code that opens the page and nothing else, for people to type: `k7dq-2m9x-…`. */
export function pageCode(token: string): string {
  const letters = 'abcdefghjkmnpqrstuvwxyz23456789';
  const bytes = createHmac('sha256', token).update('shoal page code').digest();
  const text = [...bytes.subarray(0, 16)].map((byte) => letters[byte % letters.length]).join('');
  return text.replace(/.{4}(?=.)/g, '$&-');
}
