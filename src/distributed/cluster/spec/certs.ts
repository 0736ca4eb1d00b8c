/**
 * A certificate authority for one cluster: `shoal certs init` creates it, `shoal certs issue` issues certificates. Keys
 * are ECDSA P-256. Files are readable by their owner only and never overwritten.
 */
import { webcrypto } from 'node:crypto';
import { closeSync, constants, openSync, readFileSync, unlinkSync, writeSync } from 'node:fs';
import { isIP } from 'node:net';
import { join } from 'node:path';
import { invalid, messageOf, ShoalError } from '../../../base/errors/errors.js';
import { requireDirectory } from '../../../base/files/directories.js';
import { readPrivateFile } from './private-file.js';
import { bearerOf, certFiles } from './security.js';
import { isJobName, isTaskId } from './task-id.js';

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const;
const DAY_MS = 86_400_000;
const CA_CERT = 'ca.crt';
const CA_KEY = 'ca.key';

/** Loads the X.509 library on first use. It needs its polyfill loaded first. */
async function x509() {
  await import('reflect-metadata');
  const library = await import('@peculiar/x509');
  library.cryptoProvider.set(webcrypto);
  return library;
}

export interface CertFiles {
  readonly cert: string;
  readonly key: string;
}

export interface InitCertsOptions {
  readonly dir: string;
  readonly clusterName?: string;
  readonly days?: number;
  readonly now?: number;
}

/** Creates the authority: every task needs `ca.crt`, only the issuer of certificates needs `ca.key`. */
export async function initCerts(options: InitCertsOptions): Promise<CertFiles> {
  const { dir, clusterName = 'shoal', days = 3650, now = Date.now() } = options;
  const lib = await x509();
  const keys = await webcrypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify']);
  const certificate = await lib.X509CertificateGenerator.createSelfSigned({
    serialNumber: serial(),
    name: [{ O: [clusterName] }, { CN: ['Shoal cluster authority'] }],
    ...validity(now, days),
    signingAlgorithm: ALGORITHM,
    keys: keys,
    extensions: [
      new lib.BasicConstraintsExtension(true, 0, true),
      new lib.KeyUsagesExtension(lib.KeyUsageFlags.keyCertSign | lib.KeyUsageFlags.cRLSign, true),
      await lib.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  const files = { cert: join(dir, CA_CERT), key: join(dir, CA_KEY) };
  writePair(dir, files, certificate.toString('pem'), await pemOf(keys.privateKey));
  return files;
}

export interface IssueCertOptions {
  readonly dir: string;
  /** A task (`/job:ps/task:1`), a job (`ps`) for all its tasks, `task` for any task, `operator` or `serving`. */
  readonly bearer: string;
  /** Names and addresses for clients that verify them; Shoal does not. Default: localhost. */
  readonly hosts?: readonly string[];
  readonly days?: number;
  readonly now?: number;
}

function commonNameOf(bearer: string): { readonly commonName: string; readonly file: string } {
  if (isTaskId(bearer)) return { commonName: bearer, file: bearerOf(bearer) };
  if (bearer === 'task') return { commonName: '*', file: bearer };
  if (bearer === 'operator' || bearer === 'serving') return { commonName: bearer, file: bearer };
  if (isJobName(bearer)) return { commonName: `/job:${bearer}/task:*`, file: bearer };
  throw invalid(`cannot issue a certificate for "${bearer}"`, {
    hint: 'name a task as /job:ps/task:1, a job as ps, or task, operator or serving',
  });
}

/** Issues a certificate signed by the authority in `dir`, which also receives the files. */
export async function issueCert(options: IssueCertOptions): Promise<CertFiles> {
  const { dir, bearer, hosts = ['localhost', '127.0.0.1', '::1'], days = 365, now = Date.now() } = options;
  const { commonName, file } = commonNameOf(bearer);
  const lib = await x509();
  const authority = readAuthority(dir);
  const issuer = new lib.X509Certificate(authority.cert);
  const der = lib.PemConverter.decode(authority.key)[0]!;
  const signingKey = await webcrypto.subtle.importKey('pkcs8', der, ALGORITHM, false, ['sign']);
  const keys = await webcrypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify']);
  const end = validity(now, days);
  const certificate = await lib.X509CertificateGenerator.create({
    serialNumber: serial(),
    issuer: issuer.subject,
    subject: [{ CN: [commonName] }],
    ...end,
    notAfter: new Date(Math.min(end.notAfter.getTime(), issuer.notAfter.getTime())),
    signingAlgorithm: ALGORITHM,
    publicKey: keys.publicKey,
    signingKey: signingKey,
    extensions: [
      new lib.BasicConstraintsExtension(false, undefined, true),
      new lib.KeyUsagesExtension(lib.KeyUsageFlags.digitalSignature, true),
      new lib.ExtendedKeyUsageExtension([lib.ExtendedKeyUsage.serverAuth, lib.ExtendedKeyUsage.clientAuth]),
      new lib.SubjectAlternativeNameExtension(
        hosts.map((value) => ({ type: isIP(value) === 0 ? ('dns' as const) : ('ip' as const), value })),
      ),
      await lib.AuthorityKeyIdentifierExtension.create(issuer),
      await lib.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  const names = certFiles(file);
  const files = { cert: join(dir, names.cert), key: join(dir, names.key) };
  writePair(dir, files, certificate.toString('pem'), await pemOf(keys.privateKey));
  return files;
}

function readAuthority(dir: string): CertFiles {
  try {
    return { cert: readFileSync(join(dir, CA_CERT), 'utf8'), key: readPrivateFile(join(dir, CA_KEY)) };
  } catch (cause) {
    if (cause instanceof ShoalError) throw cause;
    throw new ShoalError('SHOAL_NOT_FOUND', `no certificate authority in ${dir}: ${messageOf(cause)}`, {
      hint: `create one: shoal certs init --dir ${dir}`,
      cause,
    });
  }
}

function serial(): string {
  const bytes = webcrypto.getRandomValues(new Uint8Array(16));
  // A serial number is a positive integer without leading zeros.
  bytes[0] = (bytes[0]! & 0x7f) | 0x40;
  return Buffer.from(bytes).toString('hex');
}

/** Valid from a day ago, for machines whose clocks are behind. */
function validity(now: number, days: number): { readonly notBefore: Date; readonly notAfter: Date } {
  if (!(days > 0 && days <= 36_500)) throw invalid(`a certificate cannot last ${days} days`);
  return { notBefore: new Date(now - DAY_MS), notAfter: new Date(now + days * DAY_MS) };
}

async function pemOf(key: webcrypto.CryptoKey): Promise<string> {
  const der = Buffer.from(await webcrypto.subtle.exportKey('pkcs8', key)).toString('base64');
  return `-----BEGIN PRIVATE KEY-----\n${der.match(/.{1,64}/g)!.join('\n')}\n-----END PRIVATE KEY-----\n`;
}

function writePair(dir: string, files: CertFiles, cert: string, key: string): void {
  requireDirectory(dir, 'certificates', { mode: 0o700 });
  writeOnce(files.key, key);
  try {
    writeOnce(files.cert, `${cert.trimEnd()}\n`);
  } catch (error) {
    unlinkSync(files.key);
    throw error;
  }
}

function writeOnce(path: string, text: string): void {
  let file: number;
  try {
    file = openSync(
      path,
      constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW,
      0o600,
    );
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'EEXIST')
      throw invalid(`cannot write ${path}: ${messageOf(cause)}`, { cause });
    throw new ShoalError('SHOAL_ALREADY_EXISTS', `${path} exists`, {
      hint: 'Shoal does not overwrite keys and certificates: remove the old ones, or use another directory',
      cause,
    });
  }
  try {
    writeSync(file, text);
  } finally {
    closeSync(file);
  }
}
