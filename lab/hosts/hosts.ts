/**
 * The lab: several hosts on one machine, for experiments that need machines with nothing in common.
 *
 *   await using lab = await Lab.create({ hosts: 3 });
 *   const server = lab.hosts[0].start('node', ['server.js']);
 *   await lab.hosts[1].cut();
 *
 * Every host has a network address and a disk of its own, under the same path. Apart from its disk, /tmp,
 * /dev/shm and /etc/hosts a host sees the machine's files as they are, so programs and libraries are shared
 * in memory. /proc is the machine's too: pids are the same everywhere. The lab cleans up when it is disposed of and when its owner ends, in whatever way (guard.ts).
 */
import { realpath } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { invalid, ShoalError } from '../../src/errors/errors.js';
import { directoryGround } from './directories.js';
import { Guard, sweep } from './guard.js';
import type { HostSpec, LabHost } from './host.js';
import { type Ability, probe } from './namespace-support.js';
import { type Ground, type GroundOptions, namespaceGround } from './namespaces.js';
import { claimLab, formatLabName } from './naming.js';
import { visiblePaths } from './visible.js';

export type { ExecOptions, ExecResult, HostSpec, LabHost, NetworkTraits } from './host.js';
export type { Exit, LabProcess, StartOptions } from './process.js';

/**
 * `auto` takes namespaces where the machine allows them; `namespaces` insists on them; `user-namespaces`
 * makes them as one who is not root does; `directories` does without.
 */
export type LabMode = (typeof MODES)[number];
const MODES = ['auto', 'namespaces', 'user-namespaces', 'directories'] as const;

export interface LabOptions {
  /** How many (they are called h0, h1, …), or which. */
  readonly hosts: number | readonly (string | HostSpec)[];
  /** Limits every disk that has no limit of its own, so that it can be filled. */
  readonly diskBytes?: number;
  /** Paths under the temp directory that hosts see, besides this package, Node and what SHOAL_* name. */
  readonly visible?: readonly string[];
  /** The environment's SHOAL_LAB unless told; else `auto`. */
  readonly mode?: LabMode;
  /** Gets the line that says why hosts are directories only. Standard error unless told. */
  readonly warn?: (line: string) => void;
}

const MOST_HOSTS = 200;
const HOST_NAME = /^[a-z][a-z0-9-]{0,30}$/;

export class Lab implements AsyncDisposable {
  /** Unique on this machine. */
  readonly name: string;
  /** True when networks and disks are really apart. */
  readonly isolated: boolean;
  readonly hosts: readonly LabHost[];
  /** The lab's files, on the owner's side; gone when the lab is. */
  readonly directory: string;
  readonly guardPid: number;
  readonly #ground: Ground;
  readonly #guard: Guard;
  #disposed: Promise<void> | undefined;

  private constructor(options: GroundOptions, isolated: boolean, ground: Ground, guard: Guard) {
    this.name = options.name;
    this.directory = options.directory;
    this.isolated = isolated;
    this.hosts = ground.hosts;
    this.guardPid = guard.pid;
    this.#ground = ground;
    this.#guard = guard;
  }

  static async create(options: LabOptions): Promise<Lab> {
    const hosts = hostSpecs(options);
    const ability = await abilityFor(options);
    const outerTmp = await realpath(tmpdir());
    const roots = outerTmp === '/tmp' || outerTmp.startsWith('/tmp/') ? ['/tmp'] : ['/tmp', outerTmp];
    const visible = visiblePaths(roots, options.visible ?? []);

    await sweep(outerTmp);
    const claim = await claimLab(outerTmp);
    const name = formatLabName(claim);
    const directory = join(outerTmp, name);
    const guard = await Guard.start(name, directory);
    const place: GroundOptions = { name, slot: claim.slot, directory, outerTmp, hosts, visible };
    try {
      const isolated = ability.kind === 'namespaces';
      const ground = isolated ? await namespaceGround(ability, place) : await directoryGround(place);
      return new Lab(place, isolated, ground, guard);
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

  /** Hosts of one group hear each other and nobody else; hosts in no group stay together. */
  async split(...groups: readonly (readonly LabHost[])[]): Promise<void> {
    await this.#ground.split(groups.map((group) => group.map(({ name }) => name)));
  }

  /** Undoes `split`. Hosts that were cut stay cut. */
  async join(): Promise<void> {
    await this.#ground.join();
  }

  /** Kills what runs on the hosts and removes every trace. May be called again. */
  dispose(): Promise<void> {
    this.#disposed ??= (async () => {
      this.#ground.release();
      await this.#guard.end();
      await this.#ground.ended();
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
    if (!HOST_NAME.test(name)) throw invalid(`"${name}" is no host name (small letters, digits and dashes)`);
    if (seen.has(name)) throw invalid(`two hosts are called ${name}`);
    if (bytes !== undefined && !(Number.isSafeInteger(bytes) && bytes >= 4096)) {
      throw invalid(`diskBytes of ${name} must be a whole number of at least 4096, got ${bytes}`);
    }
    seen.add(name);
  }
  return specs;
}

async function abilityFor(options: LabOptions): Promise<Ability> {
  const mode = options.mode ?? process.env.SHOAL_LAB ?? 'auto';
  if (!(MODES as readonly string[]).includes(mode)) {
    throw invalid(`the lab's mode is ${MODES.join(', ')}, not "${mode}"`);
  }
  const userOnly = mode === 'user-namespaces';
  const ability: Ability =
    mode === 'directories' ? { kind: 'none', reason: 'asked for' } : await probe({ userOnly });
  if (ability.kind === 'namespaces') return ability;
  if (mode !== 'auto' && mode !== 'directories') {
    throw new ShoalError('SHOAL_UNSUPPORTED', `a lab on namespaces was asked for, but ${ability.reason}`);
  }
  const warn = options.warn ?? ((line: string) => process.stderr.write(`${line}\n`));
  warn(`lab: hosts are separate directories and loopback addresses, not namespaces: ${ability.reason}`);
  return ability;
}
