/**
 * The blob names of a checkpoint in a store. Every attempt at a save has its own directory, so files of two attempts,
 * or of two chiefs, never mix.
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

/** Identifies an attempt: the incarnation of its chief, and the sequence of its checkpoint. */
export interface AttemptStamp {
  readonly incarnation: number;
  readonly sequence: number;
}

/** A unique name. Its stamp shows later whether the attempt can still be running. */
export function newAttempt(stamp?: AttemptStamp): string {
  const unique = randomBytes(6).toString('hex');
  return stamp === undefined ? unique : `${stamp.incarnation}-${stamp.sequence}-${unique}`;
}

export function stampOf(attempt: string): AttemptStamp | undefined {
  const match = /^(\d+)-(\d+)-[0-9a-f]+$/.exec(attempt);
  return match ? { incarnation: Number(match[1]), sequence: Number(match[2]) } : undefined;
}

export const within = (namespace: string, name: string): string =>
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

/** The parts of a manifest's blob name; undefined for other names. */
export function parseManifestBlob(
  name: string,
): { sequence: number; step: number; attempt: string } | undefined {
  const match = /(?:^|\/)manifests\/(\d{12,})-(\d+)-([a-z0-9-]+)\.json$/.exec(name);
  if (!match) return undefined;
  return { sequence: Number(match[1]), step: Number(match[2]), attempt: match[3]! };
}

/**
 * The attempt that a file's blob belongs to; undefined for other blobs. A namespace may be a user's directory: only
 * names made by `newAttempt` and `fileBlob` count as Shoal's.
 */
export function parseFileBlob(namespace: string, name: string): AttemptName | undefined {
  const match = /^([^/]+)@((?:\d+-\d+-)?[0-9a-f]{12})\/\1\.[^/]+$/.exec(partWithin(namespace, name) ?? '');
  return match ? { prefix: match[1]!, attempt: match[2]! } : undefined;
}

/** Whether a blob or folder of that name can be or contain a manifest or a file of an attempt. */
export function isOfCheckpoints(namespace: string, name: string): boolean {
  const [first = ''] = (partWithin(namespace, name) ?? '').split('/', 1);
  return first === 'manifests' || /@(?:\d+-\d+-)?[0-9a-f]{12}$/.test(first);
}

function partWithin(namespace: string, name: string): string | undefined {
  const start = within(namespace, '');
  return name.startsWith(start) ? name.slice(start.length) : undefined;
}
