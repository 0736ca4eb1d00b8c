/**
 * Who may speak to an agent. Three ways: mutual TLS with certificates of a cluster CA, a shared cluster
 * token over plain HTTP, or nothing, in which case an agent listens on loopback only.
 *
 * A task certificate names the tasks it speaks for in its common name: `/job:ps/task:1`, `/job:ps/task:*`
 * or `*`. Host names are not checked: a task keeps its certificate when it moves to another machine.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { type ConnectionOptions, TLSSocket, type TlsOptions } from 'node:tls';
import { invalid, messageOf, ShoalError } from '../../errors/errors.js';
import { isTaskId, parseTaskId, type TaskId } from './task-id.js';
import { tlsOfFiles } from './tls-files.js';

export type Security =
  | TlsSecurity
  | { readonly kind: 'token'; readonly token: string }
  | { readonly kind: 'none' };

export interface TlsSecurity {
  readonly kind: 'tls';
  readonly ca: string;
  readonly cert: string;
  readonly key: string;
  /** Looks at the files again; true when they have changed. Throws, once, when what is there cannot be used. */
  readonly reload?: () => boolean;
}

export const MIN_TOKEN_LENGTH = 16;

export function tokenSecurity(token: string): Security {
  if (token.length < MIN_TOKEN_LENGTH || !/^[\x21-\x7e]+$/.test(token)) {
    throw invalid(`a cluster token has at least ${MIN_TOKEN_LENGTH} printable characters and no spaces`, {
      hint: 'draw one: openssl rand -hex 32',
    });
  }
  return { kind: 'token', token };
}

/** The file names of one bearer of a certificate, `ps-1.crt` and `ps-1.key` for ps 1. */
export function certFiles(bearer: string): { readonly cert: string; readonly key: string } {
  return { cert: `${bearer}.crt`, key: `${bearer}.key` };
}

export function bearerOf(task: TaskId): string {
  const { job, index } = parseTaskId(task);
  return `${job}-${index}`;
}

/**
 * Reads from a directory what `shoal certs` wrote there: for the task, for its job or for all tasks; or for
 * an operator, who looks at a cluster without being part of it.
 */
export function loadTls(directory: string, bearer: TaskId | 'operator'): Security {
  let problem: unknown;
  const names = isTaskId(bearer) ? [bearerOf(bearer), parseTaskId(bearer).job, 'task'] : [bearer];
  for (const name of names) {
    const { cert, key } = certFiles(name);
    const files = { ca: join(directory, 'ca.crt'), cert: join(directory, cert), key: join(directory, key) };
    try {
      return tlsOfFiles(files);
    } catch (cause) {
      if (cause instanceof ShoalError) throw cause;
      problem ??= cause;
    }
  }
  throw new ShoalError(
    'SHOAL_CONFIG',
    `no certificate for ${bearer} in ${directory}: ${messageOf(problem)}`,
    {
      hint: `make one: shoal certs issue ${bearer} --dir ${directory}`,
      cause: problem,
    },
  );
}

export interface SecuritySettings {
  readonly certs: { readonly value: string | undefined };
  readonly clusterToken: { readonly value: string | undefined };
}

/** The security that a configuration asks for; certificates go before a token. */
export function securityOf(settings: SecuritySettings, bearer: TaskId | 'operator'): Security {
  if (settings.certs.value !== undefined) return loadTls(settings.certs.value, bearer);
  const { value: token } = settings.clusterToken;
  return token === undefined ? { kind: 'none' } : tokenSecurity(token);
}

/** Whether a certificate with this common name speaks for the task. */
export function speaksFor(commonName: string, task: TaskId): boolean {
  if (commonName === '*' || commonName === task) return true;
  return commonName === `/job:${parseTaskId(task).job}/task:*`;
}

export function serverTls({ ca, cert, key }: Extract<Security, { kind: 'tls' }>): TlsOptions {
  return {
    ca,
    cert,
    key,
    requestCert: true,
    rejectUnauthorized: true,
    minVersion: 'TLSv1.3',
    handshakeTimeout: 10_000,
  };
}

/** How to connect to a peer; with `task` the peer must hold a certificate that speaks for it. */
export function clientTls(
  { ca, cert, key }: Extract<Security, { kind: 'tls' }>,
  task: TaskId | undefined,
): ConnectionOptions {
  return {
    ca,
    cert,
    key,
    minVersion: 'TLSv1.3',
    checkServerIdentity: (_host, { subject }) => {
      const name = String(subject.CN ?? '');
      if (task === undefined || speaksFor(name, task)) return undefined;
      return new Error(`the certificate there is of ${name || 'nobody'}, not of ${task}`);
    },
  };
}

const digest = (text: string) => createHash('sha256').update(text).digest();

/** Compares in a time that tells nothing about where two texts differ. */
export function sameSecret(a: string, b: string): boolean {
  return timingSafeEqual(digest(a), digest(b));
}

/** Whether a request may be looked at. Under TLS the handshake has decided that already. */
export function isAuthorised(security: Security, request: IncomingMessage): boolean {
  switch (security.kind) {
    case 'tls':
      return request.socket instanceof TLSSocket && request.socket.authorized;
    case 'token':
      return sameSecret(request.headers.authorization ?? '', `Bearer ${security.token}`);
    case 'none':
      return isFromOutsideBrowser(request);
  }
}

/**
 * Without credentials a web page open on this machine could reach a loopback agent through the browser. A
 * browser tells its origin, and a name that was rebound to loopback stands in the Host header.
 */
function isFromOutsideBrowser({ headers }: IncomingMessage): boolean {
  if (headers.origin !== undefined || headers['sec-fetch-site'] !== undefined) return false;
  return /^(localhost|127(\.\d+){3}|\[::1\])(:\d+)?$/i.test(headers.host ?? '');
}

/** Whether the caller may say that it is this task. */
export function mayClaim(security: Security, request: IncomingMessage, task: TaskId): boolean {
  if (security.kind !== 'tls') return true;
  const { socket } = request;
  return (
    socket instanceof TLSSocket && speaksFor(String(socket.getPeerCertificate().subject?.CN ?? ''), task)
  );
}

/** Who sends a request, as far as it is known: the name in its certificate, else where it comes from. */
export function peerOf({ socket }: IncomingMessage): string {
  const name = socket instanceof TLSSocket ? socket.getPeerCertificate().subject?.CN : undefined;
  return String(name ?? socket.remoteAddress ?? 'a peer');
}

/**
 * Whether a caller that names no task may act as an operator. Without certificates an identity is claimed, not proven, so
 * whoever is authorised may.
 */
export function isOperator(security: Security, { socket }: IncomingMessage): boolean {
  if (security.kind !== 'tls') return true;
  const name = socket instanceof TLSSocket ? String(socket.getPeerCertificate().subject?.CN ?? '') : '';
  // A certificate for any task speaks for the chief too.
  return name === 'operator' || name === '*';
}

/** The headers that a client adds to each request. */
export function credentials(security: Security): Readonly<Record<string, string>> {
  return security.kind === 'token' ? { authorization: `Bearer ${security.token}` } : {};
}
