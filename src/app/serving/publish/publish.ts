/** Publishes a version to serving processes, all or none. */
import { readdir } from 'node:fs/promises';
import { basename, resolve } from 'node:path';
import { backoffMs } from '../../../base/async/backoff.js';
import { sleep } from '../../../base/async/deadline.js';
import { invalid, isShoalError, ShoalError } from '../../../base/errors/errors.js';
import { isTransient } from '../../../distributed/cluster/agent/http-peer.js';
import {
  SAVED_MODEL_FILE,
  SAVED_MODEL_TEXT_FILE,
} from '../../../training/saved-model/signatures/constants.js';
import { versionOfName } from '../../../training/saved-model/writing/versions.js';
import { versionsIn } from '../models/version-files.js';
import { bytesOf, manifestOf, type PublishedManifest } from './manifest.js';
import type { PublishTarget } from './target.js';
import {
  type ChangeResult,
  DEADLINE_SECS,
  type PublishProgress,
  resultsOf,
  type TargetsOptions,
  whoPublishes,
  withTargets,
} from './targets.js';
import { changeAll, type Outcome, type Phases, type Refusal } from './two-phase.js';

export interface PublishOptions extends TargetsOptions {
  /** A version's directory, or the one above it. */
  readonly directory: string;
  /** Default: the newest of the directory, or its name. */
  readonly version?: number | undefined;
  /** Publishes without targets that do not answer; default: false, they are waited for until the deadline. */
  readonly skipsAbsent?: boolean | undefined;
  /** A target that has a newer version, or has rolled this one back, is left alone; default: false, an error. */
  readonly leavesNewer?: boolean | undefined;
}

const RETRY = { baseMs: 250, maxMs: 5000 };

/** The version that a directory is, or holds. */
export async function versionToPublish(
  path: string,
  wanted?: number,
): Promise<{ readonly version: number; readonly directory: string }> {
  const directory = resolve(path);
  const isVersion = (await filesOf(directory)).some(
    (name) => name === SAVED_MODEL_FILE || name === SAVED_MODEL_TEXT_FILE,
  );
  if (isVersion) {
    const name = basename(directory);
    const version = wanted ?? versionOfName(name);
    if (version !== undefined) return { version, directory };
    throw invalid(`${directory} is a version without a number`, { hint: 'Give it one: --version=N' });
  }
  const versions = await versionsIn(directory);
  const version = wanted ?? Math.max(...versions.keys());
  const found = versions.get(version);
  if (found !== undefined) return { version, directory: found };
  throw new ShoalError(
    'SHOAL_NOT_FOUND',
    wanted === undefined
      ? `${directory} is no SavedModel and has no versions`
      : `${directory} has no version ${wanted}; it has: ${[...versions.keys()].join(', ') || 'none'}`,
  );
}

async function filesOf(directory: string): Promise<readonly string[]> {
  return readdir(directory).catch((cause: unknown) => {
    throw new ShoalError('SHOAL_NOT_FOUND', `${directory} cannot be read`, { cause });
  });
}

/** Rejects if nothing was changed anywhere. Otherwise the result says what each target has. */
export async function publish(options: PublishOptions): Promise<ChangeResult> {
  const { directory, version, signal } = options;
  return publishVersion(await readVersion(directory, version, signal), options);
}

/** A version that was read: it can be published several times. */
export interface ReadVersion {
  readonly version: number;
  readonly directory: string;
  readonly manifest: PublishedManifest;
}

export async function readVersion(path: string, wanted?: number, signal?: AbortSignal): Promise<ReadVersion> {
  const { version, directory } = await versionToPublish(path, wanted);
  return { version, directory, manifest: await manifestOf(directory, signal) };
}

/** As `publish`. */
export async function publishVersion(
  { version, directory, manifest }: ReadVersion,
  options: Omit<PublishOptions, 'directory' | 'version'>,
): Promise<ChangeResult> {
  const { signal, skipsAbsent = false } = options;
  const { digest, files } = manifest;
  return withTargets(options, async (targets) => {
    const deadlineMs = (options.deadlineSecs ?? DEADLINE_SECS) * 1000;
    const end = performance.now() + deadlineMs;
    const phases: Omit<Phases, 'deadlineMs'> = {
      request: async () => ({
        kind: 'publish',
        model: options.model,
        by: whoPublishes(),
        version,
        digest,
        files: [...files],
      }),
      prepare: (target, id, either) => sendAndPrepare(target, id, directory, manifest, options, either),
      judge: (target, reply) => judge(target, reply, version, options.leavesNewer ?? false),
      skipsAbsent,
      signal,
      onPhase: ({ address }, phase) => options.onProgress?.({ address, phase, sentBytes: 0, bytes: 0 }),
    };
    const outcomes = new Map(await changeAll(targets, { ...phases, deadlineMs }));
    if (!skipsAbsent) await completeAll(outcomes, phases, end);
    return { version, targets: resultsOf(targets, outcomes) };
  });
}

/** The targets that were lost while the others changed get the version when they return, until the deadline. */
async function completeAll(
  outcomes: Map<PublishTarget, Outcome>,
  phases: Omit<Phases, 'deadlineMs'>,
  end: number,
): Promise<void> {
  const { signal } = phases;
  const complete = async (target: PublishTarget): Promise<void> => {
    for (let attempt = 0; outcomes.get(target)?.kind === 'absent' && !signal?.aborted; attempt++) {
      const deadlineMs = end - performance.now();
      if (deadlineMs <= 0) return;
      try {
        for (const [one, outcome] of await changeAll([target], { ...phases, deadlineMs }))
          outcomes.set(one, outcome);
      } catch (error) {
        // At the deadline the reason known before says more.
        const saysMore = isShoalError(error) && error.code !== 'SHOAL_TIMEOUT';
        if (saysMore) outcomes.set(target, { kind: 'absent', error });
        if (!isTransient(error)) return;
      }
      await sleep(Math.min(backoffMs(attempt, RETRY), Math.max(1, end - performance.now())), signal).catch(
        () => {},
      );
    }
  };
  await Promise.all([...outcomes.keys()].map(complete));
}

async function sendAndPrepare(
  target: PublishTarget,
  id: string,
  directory: string,
  manifest: PublishedManifest,
  { onProgress }: Pick<PublishOptions, 'onProgress'>,
  signal: AbortSignal,
): Promise<void> {
  const { address } = target;
  const bytes = bytesOf(manifest.files);
  let sentBytes = 0;
  const report = (phase: PublishProgress['phase']) => onProgress?.({ address, phase, sentBytes, bytes });
  report('sending');
  const onSent = (length: number) => {
    sentBytes += length;
    report('sending');
  };
  await target.send(id, directory, manifest, { signal, onSent });
  report('loading');
  await target.reach(id, 'prepared', signal);
  report('prepared');
}

function judge({ address }: PublishTarget, reply: Refusal, version: number, leavesNewer: boolean): void {
  const hint = 'Publish it under a higher number: --version=N';
  switch (reply.outcome) {
    case 'has':
      return;
    case 'conflict':
      throw new ShoalError('SHOAL_ALREADY_EXISTS', `${address} has another version ${version}`, { hint });
    case 'withdrawn':
      if (leavesNewer) return;
      throw new ShoalError('SHOAL_ALREADY_EXISTS', `version ${version} was rolled back on ${address}`, {
        hint,
      });
    case 'older':
      if (leavesNewer) return;
      throw new ShoalError(
        'SHOAL_ALREADY_EXISTS',
        `${address} has version ${reply.newest}, which is newer than ${version}`,
        { hint },
      );
  }
}
