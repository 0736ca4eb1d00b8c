/**
 * The lab: several isolated hosts on one machine, for experiments.
 *
 *   await using lab = await Lab.create({ hosts: 3 });
 *   const server = lab.hosts[0].start('node', ['server.js']);
 *   await lab.hosts[1].disconnect();
 *
 * Every host has its own network address, and its own disk under the same path. Apart from its disk, /tmp, /dev/shm and
 * /etc/hosts a host sees the machine's files, so programs and libraries are shared in memory. /proc is the machine's
 * too: pids are the same everywhere. The lab cleans up when it is disposed of and when its owner ends, however it
 * ends (guard.ts).
 */
import { realpath } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { invalid, ShoalError } from '../../src/base/errors/errors.js';
import { directoryBackend } from './directories.js';
import { Guard, sweep } from './guard.js';
import type { HostSpec, LabHost } from './host.js';
import { probe, type Support } from './namespace-support.js';
import { type Backend, type BackendOptions, namespaceBackend } from './namespaces.js';
import { claimLab, formatLabName } from './naming.js';
import { visiblePaths } from './visible.js';

export type { ExecOptions, ExecResult, HostSpec, LabHost, NetworkTraits } from './host.js';
export type { Exit, LabProcess, StartOptions } from './process.js';

/**
 * `auto` uses namespaces if the machine allows them; `namespaces` requires them; `user-namespaces` creates them as an
 * unprivileged user does; `directories` uses none.
 */
export type LabMode = (typeof MODES)[number];
const MODES = ['auto', 'namespaces', 'user-namespaces', 'directories'] as const;

export interface LabOptions {
  /** The number of hosts (named h0, h1, …), or their names. */
  readonly hosts: number | readonly (string | HostSpec)[];
  /** The default size of the disks, which can then be filled; default: no limit. */
  readonly diskBytes?: number;
  /** Paths under the temp directory that hosts see, besides this package, Node and the paths in SHOAL_* variables. */
  readonly visible?: readonly string[];
  /** Default: SHOAL_LAB from the environment, then `auto`. */
  readonly mode?: LabMode;
  /** Receives the reason why hosts are directories only. Default: prints it to stderr. */
  readonly warn?: (line: string) => void;
}

const MOST_HOSTS = 200;
const HOST_NAME = /^[a-z][a-z0-9-]{0,30}$/;

export class Lab implements AsyncDisposable {
  /** Unique on this machine. */
  readonly name: string;
  /** True if networks and disks are isolated by namespaces. */
  readonly isolated: boolean;
  readonly hosts: readonly LabHost[];
  /** The lab's files as the owner sees them; removed with the lab. */
  readonly directory: string;
  readonly guardPid: number;
  readonly #backend: Backend;
  readonly #guard: Guard;
  #disposed: Promise<void> | undefined;

  private constructor(options: BackendOptions, isolated: boolean, backend: Backend, guard: Guard) {
    this.name = options.name;
    this.directory = options.directory;
    this.isolated = isolated;
    this.hosts = backend.hosts;
    this.guardPid = guard.pid;
    this.#backend = backend;
    this.#guard = guard;
  }

  static async create(options: LabOptions): Promise<Lab> {
    const hosts = hostSpecs(options);
    const support = await supportFor(options);
    const outerTmp = await realpath(tmpdir());
    const roots = outerTmp === '/tmp' || outerTmp.startsWith('/tmp/') ? ['/tmp'] : ['/tmp', outerTmp];
    const visible = visiblePaths(roots, options.visible ?? []);

    await sweep(outerTmp);
    const claim = await claimLab(outerTmp);
    const name = formatLabName(claim);
    const directory = join(outerTmp, name);
    const guard = await Guard.start(name, directory);
    const place: BackendOptions = { name, slot: claim.slot, directory, outerTmp, hosts, visible };
    try {
      const isolated = support.kind === 'namespaces';
      const backend = isolated ? await namespaceBackend(support, place) : await directoryBackend(place);
      return new Lab(place, isolated, backend, guard);
    } catch (error) {
      await guard.end();
      throw error;
    }
  }

  /** A host by its name or its number. */
  host(which: string | number): LabHost {
    const found =
      typeof which === 'number' ? this.hosts[which] : this.hosts.find(({ name }) => name === which);
    if (found === undefined) {
      throw invalid(`the lab has no host ${which}; it has ${this.hosts.map(({ name }) => name).join(', ')}`);
    }
    return found;
  }

  /** Partitions the network: hosts reach only hosts of their own group. Hosts in no group form another group. */
  async split(...groups: readonly (readonly LabHost[])[]): Promise<void> {
    await this.#backend.split(groups.map((group) => group.map(({ name }) => name)));
  }

  /** Undoes `split`. Disconnected hosts stay disconnected. */
  async join(): Promise<void> {
    await this.#backend.join();
  }

  /** Kills all processes on the hosts and removes the lab's files. Idempotent. */
  dispose(): Promise<void> {
    this.#disposed ??= (async () => {
      this.#backend.release();
      await this.#guard.end();
      await this.#backend.ended();
    })();
    return this.#disposed;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.dispose();
  }
}

function hostSpecs({ hosts, diskBytes }: LabOptions): HostSpec[] {
  const asked = typeof hosts === 'number' ? Array.from({ length: hosts }, (_, i) => `h${i}`) : hosts;
  if (asked.length < 1 || asked.length > MOST_HOSTS) {
    throw invalid(`a lab has between 1 and ${MOST_HOSTS} hosts, not ${asked.length}`);
  }
  const specs = asked.map((host) => ({ diskBytes, ...(typeof host === 'string' ? { name: host } : host) }));
  const seen = new Set<string>();
  for (const { name, diskBytes: bytes } of specs) {
    if (!HOST_NAME.test(name))
      throw invalid(`"${name}" is not a valid host name (lower-case letters, digits and dashes)`);
    if (seen.has(name)) throw invalid(`two hosts are named ${name}`);
    if (bytes !== undefined && !(Number.isSafeInteger(bytes) && bytes >= 4096)) {
      throw invalid(`diskBytes of ${name} must be an integer of at least 4096, got ${bytes}`);
    }
    seen.add(name);
  }
  return specs;
}

async function supportFor(options: LabOptions): Promise<Support> {
  const mode = options.mode ?? process.env.SHOAL_LAB ?? 'auto';
  if (!(MODES as readonly string[]).includes(mode)) {
    throw invalid(`the lab's mode must be one of ${MODES.join(', ')}, not "${mode}"`);
  }
  const userOnly = mode === 'user-namespaces';
  const support: Support =
    mode === 'directories' ? { kind: 'none', reason: 'requested' } : await probe({ userOnly });
  if (support.kind === 'namespaces') return support;
  if (mode !== 'auto' && mode !== 'directories') {
    throw new ShoalError('SHOAL_UNSUPPORTED', `cannot create a lab with namespaces: ${support.reason}`);
  }
  const warn = options.warn ?? ((line: string) => process.stderr.write(`${line}\n`));
  warn(`lab: hosts are separate directories and loopback addresses, not namespaces: ${support.reason}`);
  return support;
}
