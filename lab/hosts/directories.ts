/**
 * Hosts for machines that allow no namespaces: each is a directory and a loopback address. Processes, freezing and
 * wiping work as with namespaces; operations that need an isolated network or disk fail with SHOAL_UNSUPPORTED. Hosts
 * reach each other by address, not by name, and nothing prevents access to another host's directory.
 */
import { mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { ShoalError } from '../../src/base/errors/errors.js';
import { type HostSpec, LabHost } from './host.js';
import type { Backend, BackendOptions } from './namespaces.js';
import { markOf, subnetOf } from './naming.js';
import type { Launch, StartOptions } from './process.js';

const FIRST = 10;

function unsupported(host: string, what: string): Promise<never> {
  const message = `${host}: ${what} needs namespaces, which this lab does not have`;
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

  disconnect(): Promise<void> {
    return unsupported(this.name, 'disconnecting the network');
  }

  reconnect(): Promise<void> {
    return unsupported(this.name, 'reconnecting the network');
  }

  block(): Promise<void> {
    return unsupported(this.name, 'blocking a direction of the network');
  }

  unblock(): Promise<void> {
    return unsupported(this.name, 'blocking a direction of the network');
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
      // Through the same shell as with namespaces, so that a wrong command or directory fails in the same way.
      argv: ['/bin/sh', '-c', 'cd -- "$0" && exec "$@"', cwd, command, ...args],
      env: this.environment({ TMPDIR: this.#tmp, SHOAL_LAB_MARK: this.#mark }, options),
      cwd: '/',
    };
  }
}

export async function directoryBackend(
  options: BackendOptions,
  platform: NodeJS.Platform = process.platform,
): Promise<Backend> {
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
