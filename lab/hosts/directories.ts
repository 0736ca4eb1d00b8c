/**
 * Hosts for machines that allow no namespaces: each is a directory and a loopback address of its own.
 * Processes, freezing and wiping work as on namespaces; what needs a network or a disk of one's own says
 * that it cannot be done. Hosts reach each other by address, not by name, and nothing but good manners keeps
 * one off another's directory.
 */
import { mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { ShoalError } from '../../src/errors/errors.js';
import { type HostSpec, LabHost } from './host.js';
import type { Ground, GroundOptions } from './namespaces.js';
import { markOf, subnetOf } from './naming.js';
import type { Launch, StartOptions } from './process.js';

const FIRST = 10;

function unsupported(host: string, what: string): Promise<never> {
  const message = `${host}: ${what} needs namespaces, and this lab has directories only`;
  const hint = 'run as root, or where user namespaces are allowed, with iproute2 and util-linux installed';
  return Promise.reject(new ShoalError('SHOAL_UNSUPPORTED', message, { hint }));
}

class DirectoryHost extends LabHost {
  readonly #mark: string;
  readonly #tmp: string;

  constructor(spec: HostSpec, address: string, place: string, mark: string) {
    super(spec.name, address, join(place, 'disk'));
    this.#mark = mark;
    this.#tmp = join(place, 'tmp');
  }

  cut(): Promise<void> {
    return unsupported(this.name, 'cutting the network');
  }

  heal(): Promise<void> {
    return unsupported(this.name, 'healing the network');
  }

  slow(): Promise<void> {
    return unsupported(this.name, 'slowing the network down');
  }

  unslow(): Promise<void> {
    return unsupported(this.name, 'slowing the network down');
  }

  fillDisk(): Promise<void> {
    return unsupported(this.name, 'filling the disk');
  }

  freeDisk(): Promise<void> {
    return unsupported(this.name, 'filling the disk');
  }

  async wipeDisk(): Promise<void> {
    for (const root of [this.disk, this.#tmp]) {
      for (const name of await readdir(root)) await rm(join(root, name), { recursive: true, force: true });
    }
  }

  protected override launch(command: string, args: readonly string[], options: StartOptions): Launch {
    const cwd = this.path(options.cwd ?? '.');
    return {
      host: this.name,
      title: command,
      // Through the same shell as on namespaces, so that a bad command or directory shows alike.
      argv: ['/bin/sh', '-c', 'cd -- "$0" && exec "$@"', cwd, command, ...args],
      env: this.environment({ TMPDIR: this.#tmp, SHOAL_LAB_MARK: this.#mark }, options),
      cwd: '/',
    };
  }
}

export async function directoryGround(
  options: GroundOptions,
  platform: NodeJS.Platform = process.platform,
): Promise<Ground> {
  const hosts: LabHost[] = [];
  for (const [i, spec] of options.hosts.entries()) {
    const place = join(options.directory, 'hosts', spec.name);
    await mkdir(join(place, 'disk'), { recursive: true });
    await mkdir(join(place, 'tmp'));
    // Linux answers on all of 127/8, other systems on one address only.
    const address = platform === 'linux' ? `${subnetOf(options.slot, 127)}.${FIRST + i}` : '127.0.0.1';
    hosts.push(new DirectoryHost(spec, address, place, markOf(options.name)));
  }
  return {
    hosts,
    split: () => unsupported(options.name, 'splitting the network'),
    join: () => unsupported(options.name, 'joining the network'),
    release: () => {},
    ended: async () => {},
  };
}
