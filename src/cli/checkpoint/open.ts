/**
 * Finds the checkpoints that a command is about: those of a running cluster, of the directories that a stopped one has
 * left, or of a store that needs no cluster.
 */
import { readdirSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { manifestsPrefix, parseManifestBlob } from '../../checkpoint/names.js';
import { askStatus } from '../../cluster/agent/status.js';
import { resolveConfig } from '../../cluster/spec/config.js';
import { invalid, isShoalError, messageOf, ShoalError } from '../../errors/errors.js';
import { readClusterFile } from '../../job/launcher/cluster-file.js';
import { DirectoryStore } from '../../store/disk/directory-store.js';
import { OutsideStore } from '../../store/peers/outside-store.js';
import { HERE, type Store } from '../../store/store.js';
import { findCluster } from '../job/find-cluster.js';
import type { PlaceFlags } from './flags.js';
import {
  agentPlaces,
  blobDirectories,
  directoryPlaces,
  isDirectory,
  type Place,
  type Places,
} from './places.js';

export interface OpenOptions {
  readonly replicas?: number | undefined;
  /** A store that is not there is made. */
  readonly create?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly cwd?: string;
}

export class OpenStore {
  readonly store: Store;
  readonly places: readonly Place[];
  /** What was opened, for messages: `the cluster mnist`. */
  readonly label: string;
  readonly #asked: string | undefined;
  readonly #usual: string;
  readonly #close: () => void;

  constructor(parts: {
    readonly store: Store;
    readonly places: readonly Place[];
    readonly label: string;
    /** The job that was asked for. */
    readonly job: string | undefined;
    /** The job that is meant where there are checkpoints of none. */
    readonly usual: string;
    readonly close?: () => void;
  }) {
    this.store = parts.store;
    this.places = parts.places;
    this.label = parts.label;
    this.#asked = parts.job;
    this.#usual = parts.usual;
    this.#close = parts.close ?? (() => {});
  }

  /** The jobs that have checkpoints here, or the one that was asked for. */
  async jobs(signal?: AbortSignal): Promise<readonly string[]> {
    if (this.#asked !== undefined) return [this.#asked];
    const found = new Set<string>();
    for await (const { name } of this.store.list('', { signal })) {
      if (!parseManifestBlob(name)) continue;
      const folder = name.slice(0, name.lastIndexOf('/') + 1);
      found.add(folder === manifestsPrefix('') ? '' : folder.slice(0, -'/manifests/'.length));
    }
    return [...found].sort();
  }

  /** The one job whose checkpoints are meant. */
  async job(signal?: AbortSignal): Promise<string> {
    const [only, ...more] = await this.jobs(signal);
    if (more.length === 0) return only ?? this.#usual;
    const names = [only!, ...more].map((name) => `--job ${name === '' ? "''" : name}`);
    throw new ShoalError('SHOAL_CONFIG', `${this.label} has checkpoints of several jobs`, {
      hint: `say ${names.join(' or ')}`,
    });
  }

  /** A place with its machine, for people. */
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
  const told = (['store', 'dirs', 'agent'] as const).filter((name) => flags[name] !== undefined);
  if (told.length > 1 || (told.length > 0 && told[0] !== 'agent' && flags.dir !== undefined)) {
    const names = [...told, ...(flags.dir === undefined ? [] : ['dir'])];
    throw new ShoalError(
      'SHOAL_CONFIG',
      `${names.map((name) => `--${name}`).join(' and ')} exclude each other`,
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
    throw new ShoalError('SHOAL_CONFIG', 'several jobs have checkpoints here', {
      hint: `say ${names.join(' or ')}`,
    });
  }
  return openCluster(flags, options, homes[0]);
}

/** All that the flags may mean, where nothing has to be chosen: the jobs of this directory. */
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
      options.onNotice?.(`${dir} is left out: ${messageOf(error)}`);
    }
  }
  return opened;
}

/** Whether a cluster is named, by a flag or by the environment. */
const isNamed = ({ agent, dir }: PlaceFlags, env: NonNullable<OpenOptions['env']>): boolean =>
  agent !== undefined || dir !== undefined || resolveConfig({ env }).mode === 'cluster';

/** The cluster that runs, or what one has left in a directory. */
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

/** The directories of jobs that run or have left blobs; of one job where it is named. */
function homesIn(parent: string, job: string | undefined): readonly string[] {
  const homes = folders(parent).filter(
    (dir) => blobDirectories(dir).length > 0 || (readClusterFile(dir)?.agents.length ?? 0) > 0,
  );
  if (job === undefined || homes.length <= 1) return homes;
  return homes.filter(
    (dir) => basename(dir) === job || blobDirectories(dir).some((blobs) => isDirectory(join(blobs, job))),
  );
}

function over(
  places: Places,
  flags: PlaceFlags,
  { replicas }: OpenOptions,
  label: string,
  usual: string,
): OpenStore {
  const { list, nearest } = places;
  const store = new OutsideStore({
    places: { members: () => list, blobs: (place) => places.blobs(place) },
    nearest,
    replicas,
  });
  return new OpenStore({ store, places: list, label, job: flags.job, usual, close: places.close });
}

function openUrl(url: string, flags: PlaceFlags, { create = false }: OpenOptions, cwd: string): OpenStore {
  const path = /^file:(.+)$/.exec(url)?.[1];
  if (path === undefined) {
    throw invalid(`${JSON.stringify(url)} is no store that can be opened without a cluster`, {
      hint: 'say --store file:/a/directory; the disks of tasks are found by --agent, --dir or --dirs',
    });
  }
  const store = new DirectoryStore(resolve(cwd, path));
  if (!create && !isDirectory(store.root)) {
    throw new ShoalError('SHOAL_NOT_FOUND', `there is no directory ${store.root}`);
  }
  const places = [{ place: HERE, host: HERE, alive: true, at: store.root }];
  return new OpenStore({ store, places, label: store.url, job: flags.job, usual: '' });
}

/** Nothing runs: what the tasks of a cluster have left on this disk. */
function openStopped(flags: PlaceFlags, options: OpenOptions, dir: string): OpenStore {
  const directories = blobDirectories(dir);
  if (directories.length === 0) {
    throw new ShoalError(
      'SHOAL_NOT_FOUND',
      `no cluster runs in ${flags.dir ?? dir}, and none has left blobs there`,
      {
        hint: 'name a task with --agent host:port, directories with --dirs, or a store with --store file:/dir',
      },
    );
  }
  return over(directoryPlaces(directories), flags, options, `the stopped cluster in ${dir}`, basename(dir));
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
