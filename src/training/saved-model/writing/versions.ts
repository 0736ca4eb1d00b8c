/**
 * The directory of a model that is exported repeatedly: each export is a subdirectory named by a version number, as
 * TensorFlow's server expects. The number is the time in seconds, so the newest export has the highest. A file in
 * `assets.extra` records which job exported a version, at which step; versions without it are never removed.
 */
import { readdir, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import * as v from 'valibot';
import { isSystemError } from '../../../base/errors/system-error.js';
import { EXTRA_DIRECTORY } from '../signatures/constants.js';

export const ORIGIN_FILE = 'shoal.json';

const OriginSchema = v.object({
  job: v.string(),
  /** The global step when the export began. */
  step: v.number(),
  /** Set if a user exported it with a command: such a version is never removed. */
  by: v.optional(v.literal('command')),
  /** The result of the evaluation, if an evaluator exported it. */
  metric: v.optional(v.object({ name: v.string(), value: v.number() })),
});
export type Origin = v.InferOutput<typeof OriginSchema>;

export interface Version {
  readonly version: number;
  readonly path: string;
  readonly origin: Origin;
}

/** The versions that a job has exported to a directory, newest first. */
export async function versionsOf(job: string, directory: string): Promise<readonly Version[]> {
  const found: Version[] = [];
  for (const version of await numbersIn(directory)) {
    const path = join(directory, String(version));
    const origin = await readOrigin(path);
    if (origin?.job === job && origin.by === undefined) found.push({ version, path, origin });
  }
  return found;
}

/** The version number of the next export, higher than all existing ones. */
export async function nextVersion(directory: string, nowMs: number): Promise<number> {
  const [newest = 0] = await numbersIn(directory);
  return Math.max(Math.floor(nowMs / 1000), newest + 1);
}

/** The version that a directory is by its name, if it is one: `0001` is version 1, as in TensorFlow Serving. */
export function versionOfName(name: string): number | undefined {
  const version = /^\d{1,16}$/.test(name) ? Number(name) : Number.NaN;
  return Number.isSafeInteger(version) ? version : undefined;
}

/** A version is renamed to a hidden name first, so that it disappears atomically. */
export async function removeVersions(
  versions: readonly Pick<Version, 'version' | 'path'>[],
  directory: string,
): Promise<void> {
  for (const { path, version } of versions) {
    const hidden = join(directory, `.${version}.removed-${process.pid}`);
    await rename(path, hidden);
    await rm(hidden, { recursive: true, force: true });
  }
}

/** Completes the removals that an earlier process did not finish. */
export async function finishRemovals(directory: string): Promise<void> {
  for (const name of await namesIn(directory)) {
    if (/^\.\d+\.removed-\d+$/.test(name)) await rm(join(directory, name), { recursive: true, force: true });
  }
}

/** Highest first. */
async function numbersIn(directory: string): Promise<number[]> {
  const numbers = (await namesIn(directory)).flatMap((name) => versionOfName(name) ?? []);
  return numbers.sort((a, b) => b - a);
}

async function namesIn(directory: string): Promise<readonly string[]> {
  try {
    return await readdir(directory);
  } catch (error) {
    if (isSystemError(error) && error.code === 'ENOENT') return [];
    throw error;
  }
}

async function readOrigin(path: string): Promise<Origin | undefined> {
  try {
    const text = await readFile(join(path, EXTRA_DIRECTORY, ORIGIN_FILE), 'utf8');
    const parsed = v.safeParse(OriginSchema, JSON.parse(text));
    return parsed.success ? parsed.output : undefined;
  } catch {
    return undefined;
  }
}
