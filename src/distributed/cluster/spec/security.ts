/**
 * Authentication between agents: mutual TLS with certificates of a cluster CA, a shared cluster token over plain HTTP,
 * or none, in which case agents listen on loopback only.
 *
 * The common name of a task certificate is the set of tasks it is valid for: `/job:ps/task:1`, `/job:ps/task:*` or `*`.
 * Host names are not verified: a task keeps its certificate when it moves to another machine.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { type ConnectionOptions, TLSSocket, type TlsOptions } from 'node:tls';
import { invalid, messageOf, ShoalError } from '../../../base/errors/errors.js';
import { isTaskId, parseTaskId, type TaskId } from './task-id.js';
import { type TlsSecurity, tlsOfFiles } from './tls-files.js';

export type Security =
  | TlsSecurity
  | { readonly kind: 'token'; readonly token: string }
  | { readonly kind: 'none' };

export const MIN_TOKEN_LENGTH = 16;

export function tokenSecurity(token: string): Security {
  if (token.length < MIN_TOKEN_LENGTH || !/^[\x21-\x7e]+$/.test(token)) {
    throw invalid(`a cluster token needs at least ${MIN_TOKEN_LENGTH} printable characters and no spaces`, {
      hint: 'generate one: openssl rand -hex 32',
    });
  }
  return { kind: 'token', token };
}

/** The file names of a certificate: `ps-1.crt` and `ps-1.key` for ps 1. */
export function certFiles(bearer: string): { readonly cert: string; readonly key: string } {
  return { cert: `${bearer}.crt`, key: `${bearer}.key` };
}

export function bearerOf(task: TaskId): string {
  const { job, index } = parseTaskId(task);
  return `${job}-${index}`;
}

/** A task, an operator, who inspects a cluster from outside, or a machine that serves models. */
type Bearer = TaskId | 'operator' | 'serving';

/** Loads a certificate that `shoal certs` wrote to a directory: for a task its own, that of its job, or of all tasks. */
export function loadTls(directory: string, bearer: Bearer): Security {
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
      hint: `create one: shoal certs issue ${bearer} --dir ${directory}`,
      cause: problem,
    },
  );
}

export interface SecuritySettings {
  readonly certs: { readonly value: string | undefined };
  readonly clusterToken: { readonly value: string | undefined };
}

/** The security of a configuration; certificates take precedence over a token. */
export function securityOf(settings: SecuritySettings, bearer: TaskId | 'operator'): Security {
  if (settings.certs.value !== undefined) return loadTls(settings.certs.value, bearer);
  const { value: token } = settings.clusterToken;
  return token === undefined ? { kind: 'none' } : tokenSecurity(token);
}

/** The common names of certificates that are valid for the task. */
export const namesFor = (task: TaskId): readonly string[] => [
  '*',
  task,
  `/job:${parseTaskId(task).job}/task:*`,
];

/** Whether a certificate with this common name is valid for the task. */
export const isValidFor = (commonName: string, task: TaskId): boolean => namesFor(task).includes(commonName);

/** The ciphers of TLS 1.3, the fastest first. */
const CIPHERS = 'TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256';

export function serverTls({ ca, cert, key }: Extract<Security, { kind: 'tls' }>): TlsOptions {
  return {
    ca,
    cert,
    key,
    requestCert: true,
    rejectUnauthorized: true,
    minVersion: 'TLSv1.3',
    ciphers: CIPHERS,
    handshakeTimeout: 10_000,
  };
}

/** TLS options for connecting to a peer; with `task` the peer's certificate must be valid for it. */
export function clientTls(
  { ca, cert, key }: Extract<Security, { kind: 'tls' }>,
  task: TaskId | undefined,
): ConnectionOptions {
  return {
    ca,
    cert,
    key,
    minVersion: 'TLSv1.3',
    ciphers: CIPHERS,
    checkServerIdentity: (_host, { subject }) => {
      const name = String(subject.CN ?? '');
      if (task === undefined || isValidFor(name, task)) return undefined;
      return new Error(`the peer's certificate is for ${name || 'no task'}, not for ${task}`);
    },
  };
}

const digest = (text: string) => createHash('sha256').update(text).digest();

/** Constant-time comparison. */
export function sameSecret(a: string, b: string): boolean {
  return timingSafeEqual(digest(a), digest(b));
}

/** Whether a request has valid credentials. Under TLS the handshake has verified them. */
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
 * Without credentials a web page in a local browser could reach a loopback agent. Browsers send an Origin header, and
 * after DNS rebinding the Host header is not a loopback name.
 */
function isFromOutsideBrowser({ headers }: IncomingMessage): boolean {
  if (headers.origin !== undefined || headers['sec-fetch-site'] !== undefined) return false;
  return /^(localhost|127(\.\d+){3}|\[::1\])(:\d+)?$/i.test(headers.host ?? '');
}

/** Whether the caller may act as this task. */
export function mayClaim(security: Security, request: IncomingMessage, task: TaskId): boolean {
  if (security.kind !== 'tls') return true;
  const { socket } = request;
  return (
    socket instanceof TLSSocket && isValidFor(String(socket.getPeerCertificate().subject?.CN ?? ''), task)
  );
}

/** The sender of a request: the name in its certificate, or its address. */
export function peerOf({ socket }: IncomingMessage): string {
  const name = socket instanceof TLSSocket ? socket.getPeerCertificate().subject?.CN : undefined;
  return String(name ?? socket.remoteAddress ?? 'a peer');
}

/**
 * Whether a caller that identifies no task may act as an operator. Without certificates identities are not verified, so
 * every authorized caller may.
 */
export function isOperator(security: Security, { socket }: IncomingMessage): boolean {
  if (security.kind !== 'tls') return true;
  const name = socket instanceof TLSSocket ? String(socket.getPeerCertificate().subject?.CN ?? '') : '';
  // A certificate for any task is valid for the chief too.
  return name === 'operator' || name === '*';
}

/** The headers that a client adds to each request. */
export function credentials(security: Security): Readonly<Record<string, string>> {
  return security.kind === 'token' ? { authorization: `Bearer ${security.token}` } : {};
}
