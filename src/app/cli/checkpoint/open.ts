/**
 * Opens the checkpoints that a command refers to: of a running cluster, in the directories of a stopped cluster, or in a
 * store that needs no cluster.
 */
import { readdirSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { describeError, invalid, isShoalError, ShoalError } from '../../../base/errors/errors.js';
import type { Manifest } from '../../../distributed/checkpoint/format/manifest.js';
import { manifestsPrefix, parseManifestBlob } from '../../../distributed/checkpoint/format/names.js';
import type { RepairPlace } from '../../../distributed/checkpoint/maintenance/repair.js';
import { askStatus } from '../../../distributed/cluster/agent/status.js';
import { resolveConfig } from '../../../distributed/cluster/spec/config.js';
import { DirectoryStore } from '../../../distributed/store/disk/directory-store.js';
import { OutsideStore } from '../../../distributed/store/peers/outside-store.js';
import { HERE, type Store } from '../../../distributed/store/store.js';
import { readClusterFile } from '../../job/launcher/cluster-file.js';
import { findCluster } from '../job/find-cluster.js';
import type { PlaceFlags } from './flags.js';
import {
  agentPlaces,
  blobDirectories,
  directoryPlaces,
  hasManifests,
  isDirectory,
  type Place,
  type Places,
} from './places.js';

export interface OpenOptions {
  readonly replicas?: number;
  /** Create the store if it does not exist. */
  readonly create?: boolean;
  readonly signal?: AbortSignal;
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly cwd?: string;
}

export class OpenStore {
  readonly store: Store;
  readonly places: readonly Place[];
  /** What was opened, for messages: `the cluster mnist`. */
  readonly label: string;
  readonly #requestedJob: string | undefined;
  readonly #defaultJob: string;
  readonly #hasFormerTasks: boolean;
  readonly #close: () => void;

  constructor(parts: {
    readonly store: Store;
    readonly places: readonly Place[];
    readonly label: string;
    /** The job given by --job. */
    readonly job: string | undefined;
    /** The job to use if the store has no checkpoints. */
    readonly defaultJob: string;
    /** Whether places may belong to tasks that are no longer part of the cluster; default: false. */
    readonly hasFormerTasks?: boolean;
    readonly close?: () => void;
  }) {
    this.store = parts.store;
    this.places = parts.places;
    this.label = parts.label;
    this.#requestedJob = parts.job;
    this.#defaultJob = parts.defaultJob;
    this.#hasFormerTasks = parts.hasFormerTasks ?? false;
    this.#close = parts.close ?? (() => {});
  }

  /** The requested job, or all jobs that have checkpoints in the store. */
  async jobs(signal?: AbortSignal): Promise<readonly string[]> {
    return this.#requestedJob !== undefined ? [this.#requestedJob] : this.#savedJobs(signal);
  }

  /** Throws if the requested job is unknown: it has no checkpoints, and is not the one that runs. */
  async requireJob(signal?: AbortSignal): Promise<void> {
    const job = this.#requestedJob;
    if (job === undefined || job === this.#defaultJob) return;
    const saved = await this.#savedJobs(signal);
    if (!saved.includes(job)) throw unknownJob(this.label, job, saved);
  }

  async #savedJobs(signal: AbortSignal | undefined): Promise<readonly string[]> {
    const found = new Set<string>();
    for await (const { name } of this.store.list('', { signal })) {
      if (!parseManifestBlob(name)) continue;
      const folder = name.slice(0, name.lastIndexOf('/') + 1);
      found.add(folder === manifestsPrefix('') ? '' : folder.slice(0, -'/manifests/'.length));
    }
    return [...found].sort();
  }

  /** The requested job, or the only one in the store; throws if there are several. */
  async job(signal?: AbortSignal): Promise<string> {
    const [only, ...more] = await this.jobs(signal);
    if (more.length === 0) return only ?? this.#defaultJob;
    const names = [only!, ...more].map((name) => `--job ${name === '' ? "''" : name}`);
    throw new ShoalError('SHOAL_CONFIG', `${this.label} has checkpoints of several jobs`, {
      hint: `choose one with ${names.join(' or ')}`,
    });
  }

  /** The places, with those of tasks that had left the cluster when the newest checkpoint was saved marked. */
  membersAt({ files }: Manifest): readonly RepairPlace[] {
    const saved = new Set(files.flatMap(({ places }) => places));
    // Without any place of the last cluster, its tasks have other disks now.
    if (!this.#hasFormerTasks || !this.places.some(({ place }) => saved.has(place))) return this.places;
    return this.places.map((one) => ({ ...one, hasLeft: !saved.has(one.place) }));
  }

  /** A place and its machine, for messages. */
  describe(place: string): string {
    const at = this.places.find((one) => one.place === place)?.at;
    return at === undefined || at === place ? place : `${place} on ${at}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.store.close();
    this.#close();
  }
}

export async function openStore(flags: PlaceFlags, options: OpenOptions = {}): Promise<OpenStore> {
  const { cwd = process.cwd(), env = process.env } = options;
  const given = (['store', 'dirs', 'agent'] as const).filter((name) => flags[name] !== undefined);
  if (given.length > 1 || (given.length > 0 && given[0] !== 'agent' && flags.dir !== undefined)) {
    const names = [...given, ...(flags.dir === undefined ? [] : ['dir'])];
    throw new ShoalError(
      'SHOAL_CONFIG',
      `${names.map((name) => `--${name}`).join(' and ')} are mutually exclusive`,
    );
  }
  if (flags.store !== undefined) return openUrl(flags.store, flags, options, cwd);
  if (flags.dirs !== undefined) {
    const directories = flags.dirs.split(',').flatMap((dir) => dir.trim() || []);
    const places = directoryPlaces(directories.map((dir) => resolve(cwd, dir)));
    return over(places, flags, options, 'these directories', '');
  }
  if (isNamed(flags, env)) return openCluster(flags, options, flags.dir);
  const homes = homesIn(join(cwd, '.shoal'), flags.job);
  if (homes.length > 1) {
    const names = homes.map((dir) => `--job ${basename(dir)}`);
    throw new ShoalError('SHOAL_CONFIG', `several jobs have checkpoints in ${join(cwd, '.shoal')}`, {
      hint: `choose one with ${names.join(' or ')}`,
    });
  }
  const [home] = homes;
  if (home === undefined && flags.job !== undefined) {
    const jobs = homesIn(join(cwd, '.shoal'), undefined).map((dir) => basename(dir));
    if (jobs.length > 0) throw unknownJob(join(cwd, '.shoal'), flags.job, jobs);
  }
  return openCluster(flags, options, home);
}

function unknownJob(where: string, job: string, known: readonly string[]): ShoalError {
  return new ShoalError('SHOAL_NOT_FOUND', `${where} has no checkpoints of job ${job}`, {
    hint:
      known.length === 0
        ? 'it has no checkpoints'
        : `it has checkpoints of ${known.map((name) => name || "''").join(', ')}`,
  });
}

/** Opens every store that matches the flags; without flags, those of all jobs in this directory. */
export async function openEach(
  flags: PlaceFlags,
  options: OpenOptions & { readonly onNotice?: (line: string) => void } = {},
): Promise<readonly OpenStore[]> {
  const { cwd = process.cwd(), env = process.env } = options;
  const isOne = flags.store !== undefined || flags.dirs !== undefined || isNamed(flags, env);
  const homes = isOne ? [] : homesIn(join(cwd, '.shoal'), flags.job);
  if (homes.length <= 1) return [await openStore(flags, options)];
  const opened: OpenStore[] = [];
  for (const dir of homes) {
    try {
      opened.push(await openCluster(flags, options, dir));
    } catch (error) {
      options.onNotice?.(`skipped ${dir}: ${describeError(error)}`);
    }
  }
  return opened;
}

/** Whether a flag or the environment names a cluster. */
const isNamed = ({ agent, dir }: PlaceFlags, env: NonNullable<OpenOptions['env']>): boolean =>
  agent !== undefined || dir !== undefined || resolveConfig({ env }).mode === 'cluster';

/** Opens the running cluster, or the directories of a stopped one. */
async function openCluster(
  flags: PlaceFlags,
  options: OpenOptions,
  dir: string | undefined,
): Promise<OpenStore> {
  const { cwd = process.cwd(), env = process.env } = options;
  let cluster: ReturnType<typeof findCluster>;
  try {
    cluster = findCluster({ ...flags, dir, env, cwd });
  } catch (error) {
    if (!isShoalError(error, 'SHOAL_NOT_FOUND') || flags.agent !== undefined) throw error;
    return openStopped(flags, options, resolve(cwd, dir ?? '.shoal'));
  }
  const status = await askStatus({ ...cluster, signal: options.signal });
  const places = agentPlaces(status, cluster.security);
  return over(places, flags, options, `the cluster ${status.cluster}`, status.cluster);
}

/** The directories of jobs (or of one job) that run or have saved; if there are none, of those that ran. */
function homesIn(parent: string, job: string | undefined): readonly string[] {
  const isRunning = (dir: string) => (readClusterFile(dir)?.agents.length ?? 0) > 0;
  const ran = folders(parent).filter((dir) => blobDirectories(dir).length > 0 || isRunning(dir));
  const saved = ran.filter((dir) => blobDirectories(dir).some(hasManifests) || isRunning(dir));
  const homes = saved.length > 0 ? saved : ran;
  if (job === undefined || homes.length <= 1) return homes;
  // A job may also have run with --dir in a directory of another name.
  const named = homes.filter((dir) => basename(dir) === job);
  if (named.length > 0) return named;
  return homes.filter((dir) => blobDirectories(dir).some((blobs) => isDirectory(join(blobs, job))));
}

function over(
  places: Places,
  flags: PlaceFlags,
  { replicas }: OpenOptions,
  label: string,
  defaultJob: string,
  hasFormerTasks = false,
): OpenStore {
  const { list, nearest } = places;
  const store = new OutsideStore({
    places: { members: () => list, blobs: (place) => places.blobs(place) },
    nearest,
    replicas,
  });
  const { close } = places;
  return new OpenStore({ store, places: list, label, job: flags.job, defaultJob, hasFormerTasks, close });
}

function openUrl(url: string, flags: PlaceFlags, { create = false }: OpenOptions, cwd: string): OpenStore {
  const path = /^file:(.+)$/.exec(url)?.[1];
  if (path === undefined) {
    throw invalid(`${JSON.stringify(url)} is not a store that can be opened without a cluster`, {
      hint: 'use --store file:/a/directory; for the disks of tasks use --agent, --dir or --dirs',
    });
  }
  const store = new DirectoryStore(resolve(cwd, path));
  if (!create && !isDirectory(store.root)) {
    throw new ShoalError('SHOAL_NOT_FOUND', `there is no directory ${store.root}`);
  }
  const places = [{ place: HERE, host: HERE, alive: true, at: store.root }];
  return new OpenStore({ store, places, label: store.url, job: flags.job, defaultJob: '' });
}

/** Opens the directories that the tasks of a stopped cluster left on this disk. */
function openStopped(flags: PlaceFlags, options: OpenOptions, dir: string): OpenStore {
  const directories = blobDirectories(dir);
  if (directories.length === 0) {
    throw new ShoalError(
      'SHOAL_NOT_FOUND',
      `no cluster runs in ${flags.dir ?? dir}, and it contains no blobs of a stopped one`,
      {
        hint: 'use --agent host:port for a task, --dirs for directories, or --store file:/dir for a store',
      },
    );
  }
  const places = directoryPlaces(directories);
  return over(places, flags, options, `the stopped cluster in ${dir}`, basename(dir), true);
}

function folders(parent: string): readonly string[] {
  try {
    return readdirSync(parent)
      .sort()
      .map((name) => join(parent, name));
  } catch {
    return [];
  }
}
