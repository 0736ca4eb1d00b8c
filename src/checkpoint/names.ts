/**
 * Where the parts of a checkpoint are in a store. Every attempt at a save has a directory of its own, so that what two
 * attempts wrote, be it of two chiefs, is never mixed.
 *
 *   <namespace>/manifests/<sequence>-<step>-<attempt>.json
 *   <namespace>/<prefix>@<attempt>/<prefix>.data-00000-of-00002, .index, .meta
 */
import { randomBytes } from 'node:crypto';
import type { Manifest } from './manifest.js';

export interface AttemptName {
  readonly prefix: string;
  readonly attempt: string;
}

const SEQUENCE_DIGITS = 12;

/** Whose attempt it is: the life of its chief, and the sequence that its checkpoint is to have. */
export interface AttemptStamp {
  readonly incarnation: number;
  readonly sequence: number;
}

/** A name that nobody else has. With a stamp it can be told later whether somebody may still be at it. */
export function newAttempt(stamp?: AttemptStamp): string {
  const unique = randomBytes(6).toString('hex');
  return stamp === undefined ? unique : `${stamp.incarnation}-${stamp.sequence}-${unique}`;
}

export function stampOf(attempt: string): AttemptStamp | undefined {
  const match = /^(\d+)-(\d+)-[0-9a-f]+$/.exec(attempt);
  return match ? { incarnation: Number(match[1]), sequence: Number(match[2]) } : undefined;
}

const within = (namespace: string, name: string): string =>
  namespace === '' ? name : `${namespace}/${name}`;

export function fileBlob(namespace: string, { prefix, attempt }: AttemptName, file: string): string {
  return within(namespace, `${prefix}@${attempt}/${file}`);
}

export function manifestsPrefix(namespace: string): string {
  return within(namespace, 'manifests/');
}

export function manifestBlob(
  namespace: string,
  { sequence, step, attempt }: Pick<Manifest, 'sequence' | 'step' | 'attempt'>,
): string {
  return `${manifestsPrefix(namespace)}${String(sequence).padStart(SEQUENCE_DIGITS, '0')}-${step}-${attempt}.json`;
}

/** Sequence and attempt as a manifest's name tells them; undefined for a name of something else. */
export function parseManifestBlob(
  name: string,
): { sequence: number; step: number; attempt: string } | undefined {
  const match = /(?:^|\/)manifests\/(\d{12,})-(\d+)-([a-z0-9-]+)\.json$/.exec(name);
  if (!match) return undefined;
  return { sequence: Number(match[1]), step: Number(match[2]), attempt: match[3]! };
}

/**
 * The attempt that a file's blob belongs to; undefined for a blob of something else. A namespace may be a directory of the
 * user's: only names that `newAttempt` and `fileBlob` make are taken for Shoal's own.
 */
export function parseFileBlob(namespace: string, name: string): AttemptName | undefined {
  const match = /^([^/]+)@((?:\d+-\d+-)?[0-9a-f]{12})\/\1\.[^/]+$/.exec(partWithin(namespace, name) ?? '');
  return match ? { prefix: match[1]!, attempt: match[2]! } : undefined;
}

/** Whether a blob or folder of that name can be, or hold, a manifest or a file of an attempt. */
export function isOfCheckpoints(namespace: string, name: string): boolean {
  const [first = ''] = (partWithin(namespace, name) ?? '').split('/', 1);
  return first === 'manifests' || /@(?:\d+-\d+-)?[0-9a-f]{12}$/.test(first);
}

function partWithin(namespace: string, name: string): string | undefined {
  const start = within(namespace, '');
  return name.startsWith(start) ? name.slice(start.length) : undefined;
}
