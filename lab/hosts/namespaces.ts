/**
 * Hosts made of Linux namespaces. Each has its own network with one cable (a veth pair) to a bridge in another
 * namespace, the hub, and a mount namespace in which the same path is its own disk. No namespace has a name or a mount
 * that keeps it alive: it ends with its last process, and its cables with it.
 *
 * All neighbour entries are static, so that ARP is not used: a disconnected host is silent, and connections to it do
 * not fail with "no route to host" after a few seconds.
 */
import { chmod, mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ShoalError } from '../../src/base/errors/errors.js';
import { Holder } from './holder.js';
import { type HostSpec, LabHost, type NetworkTraits } from './host.js';
import { Hub } from './hub.js';
import { runTool, type Support } from './namespace-support.js';
import { markOf, subnetOf } from './naming.js';
import type { Launch, StartOptions } from './process.js';
import type { Visible } from './visible.js';

type NamespaceSupport = Extract<Support, { kind: 'namespaces' }>;

const HOST_SCRIPT = fileURLToPath(new URL('./host.sh', import.meta.url));
/** The last byte of the first host's address. */
const FIRST = 10;
/** No host has this hardware address: frames to it reach every host, and every host ignores them. */
const NOBODY = '02:5a:ff:ff:ff:ff';

export interface Backend {
  readonly hosts: readonly LabHost[];
  split(groups: readonly (readonly string[])[]): Promise<void>;
  join(): Promise<void>;
  /** Releases the namespaces; the guard kills the processes that remain in them. */
  release(): void;
  ended(): Promise<void>;
}

export interface BackendOptions {
  readonly name: string;
  readonly slot: number;
  readonly directory: string;
  readonly outerTmp: string;
  readonly hosts: readonly HostSpec[];
  readonly visible: readonly Visible[];
}

class NamespaceHost extends LabHost {
  readonly #enter: () => readonly string[];
  readonly #hub: Hub;
  readonly #diskBytes: number;
  /** The backing of /tmp, and the names in it that hold mounts. */
  readonly #tmp: string;
  readonly #preserved: ReadonlySet<string>;
  /** The hardware addresses of all hosts, by address. */
  readonly #macs: ReadonlyMap<string, string>;

  constructor(
    spec: HostSpec,
    address: string,
    disk: string,
    place: {
      enter: () => readonly string[];
      hub: Hub;
      tmp: string;
      preserved: ReadonlySet<string>;
      macs: ReadonlyMap<string, string>;
    },
  ) {
    super(spec.name, address, disk);
    this.#enter = place.enter;
    this.#hub = place.hub;
    this.#tmp = place.tmp;
    this.#preserved = place.preserved;
    this.#macs = place.macs;
    this.#diskBytes = spec.diskBytes ?? 0;
  }

  async disconnect(): Promise<void> {
    await this.#hub.disconnect(this.name);
  }

  async reconnect(): Promise<void> {
    await this.#hub.reconnect(this.name);
  }

  async block(to: LabHost): Promise<void> {
    await this.#sendTo(to, NOBODY);
  }

  async unblock(to: LabHost): Promise<void> {
    await this.#sendTo(to, this.#macs.get(to.address) ?? NOBODY);
  }

  async #sendTo({ address }: LabHost, mac: string): Promise<void> {
    const neighbour = ['neigh', 'replace', address, 'lladdr', mac, 'dev', 'eth0', 'nud', 'permanent'];
    await runTool([...this.#enter(), 'ip', ...neighbour]);
  }

  async slow(traits: NetworkTraits): Promise<void> {
    await this.#hub.slow(this.name, this.#enter(), traits);
  }

  async unslow(): Promise<void> {
    await this.#hub.unslow(this.name, this.#enter());
  }

  /** The disk is a tmpfs. It is shrunk to the size of its contents, which needs no memory. */
  async fillDisk(): Promise<void> {
    this.#limited();
    // Retried: a concurrent writer makes the size too small before it is set.
    for (let attempt = 1; ; attempt++) {
      const { stdout } = await this.exec('df', ['--block-size=1', '--output=used', this.disk]);
      const used = Number(stdout.trim().split('\n').at(-1));
      try {
        // A size of 0 would mean "no limit".
        await this.#resize(Math.max(used, 4096));
        return;
      } catch (error) {
        if (attempt === 20) throw error;
      }
    }
  }

  async freeDisk(): Promise<void> {
    this.#limited();
    await this.#resize(this.#diskBytes);
  }

  async wipeDisk(): Promise<void> {
    const { code, stderr } = await this.exec('find', [this.disk, '-xdev', '-mindepth', '1', '-delete']);
    if (code !== 0)
      throw new ShoalError('SHOAL_INTERNAL', `${this.name}: could not wipe the disk: ${stderr.trim()}`);
    for (const name of await readdir(this.#tmp)) {
      if (!this.#preserved.has(name)) await rm(join(this.#tmp, name), { recursive: true, force: true });
    }
  }

  protected override launch(command: string, args: readonly string[], options: StartOptions): Launch {
    const cwd = this.path(options.cwd ?? '.');
    // Not `nsenter --wd`: it would look the directory up before entering, on the owner's disk.
    const inside = ['/bin/sh', '-c', 'cd -- "$0" && exec "$@"', cwd, command, ...args];
    return {
      host: this.name,
      title: command,
      argv: [...this.#enter(), ...inside] as [string, ...string[]],
      env: this.environment({ TMPDIR: '/tmp' }, options),
      cwd: '/',
    };
  }

  #limited(): void {
    if (this.#diskBytes > 0) return;
    throw new ShoalError('SHOAL_UNSUPPORTED', `${this.name}: a disk without a limit cannot be filled`, {
      hint: 'give the host diskBytes when the lab is created',
    });
  }

  async #resize(bytes: number): Promise<void> {
    // With a source named, mount does not add the options of before, which may not be valid in a user namespace.
    await runTool([
      ...this.#enter(),
      'mount',
      '-t',
      'tmpfs',
      '-o',
      `remount,size=${bytes}`,
      'disk',
      this.disk,
    ]);
  }
}

/** Hosts resolve each other's names; other names fail immediately instead of waiting for a server. */
async function writeEtc(
  directory: string,
  hosts: readonly { name: string; address: string }[],
): Promise<void> {
  await mkdir(join(directory, 'etc'));
  const lines = ['127.0.0.1 localhost', ...hosts.map(({ name, address }) => `${address} ${name}`)];
  await writeFile(join(directory, 'etc', 'hosts'), `${lines.join('\n')}\n`);
  await writeFile(
    join(directory, 'etc', 'resolv.conf'),
    'nameserver 127.0.0.1\noptions timeout:1 attempts:1\n',
  );
}

export async function namespaceBackend(support: NamespaceSupport, options: BackendOptions): Promise<Backend> {
  const { tools, user } = support;
  const { directory, slot } = options;
  const subnet = subnetOf(slot, 10);
  const hex = (byte: number) => byte.toString(16).padStart(2, '0');
  const ends = options.hosts.map(({ name }, i) => ({
    name,
    address: `${subnet}.${FIRST + i}`,
    mac: `02:5a:${hex(slot >> 8)}:${hex(slot & 255)}:00:${hex(FIRST + i)}`,
  }));
  await writeEtc(directory, ends);
  for (const { name, address } of ends) {
    const place = join(directory, 'hosts', name);
    await mkdir(join(place, 'disk'), { recursive: true });
    await mkdir(join(place, 'tmp', options.name, 'disk'), { recursive: true });
    await chmod(join(place, 'tmp'), 0o1777);
    const neighbours = ends.filter((end) => end.name !== name);
    const batch = [
      'link set lo up',
      `addr add ${address}/24 dev eth0`,
      'link set eth0 up',
      ...neighbours.map((end) => `neigh add ${end.address} lladdr ${end.mac} dev eth0 nud permanent`),
    ];
    await writeFile(join(place, 'net'), `${batch.join('\n')}\n`);
  }

  const intoUser = user ? ['--user', '--preserve-credentials'] : [];
  const holders: Holder[] = [];
  try {
    const hub = await Hub.start(support, directory);
    holders.push(hub.holder);
    const below = user ? [tools.nsenter, '-t', String(hub.holder.pid), ...intoUser, '--'] : [];
    const unshare = [
      ...below,
      tools.unshare,
      '--net',
      '--mount',
      '--uts',
      '--ipc',
      '--propagation',
      'private',
    ];
    const shown = options.visible.flatMap(({ target, source }) => [target, source]);
    const hostHolders = options.hosts.map(({ name, diskBytes = 0 }) => {
      const script = ['sh', HOST_SCRIPT, directory, name, String(diskBytes), options.outerTmp, ...shown];
      return new Holder(`host ${name}`, [...unshare, ...script], markOf(options.name));
    });
    holders.push(...hostHolders);
    await Promise.all(hostHolders.map((holder) => holder.waitForLine('up')));
    await hub.plug(ends.map((end, i) => ({ name: end.name, mac: end.mac, pid: hostHolders[i]?.pid ?? -1 })));
    for (const holder of hostHolders) holder.send('go');
    await Promise.all(hostHolders.map((holder) => holder.waitForLine('ready')));
    for (const holder of holders) holder.unref();

    const preserved = new Set([
      options.name,
      ...options.visible.map(({ target }) => target.split('/')[0] ?? ''),
    ]);
    const macs = new Map(ends.map(({ address, mac }) => [address, mac]));
    const hosts = options.hosts.map((spec, i) => {
      const enter = () => {
        const pid = String(hostHolders[i]?.pid);
        return [tools.nsenter, '-t', pid, ...intoUser, '--net', '--mount', '--uts', '--ipc', '--'];
      };
      const tmp = join(directory, 'hosts', spec.name, 'tmp');
      return new NamespaceHost(spec, ends[i]?.address ?? '', `/tmp/${options.name}/disk`, {
        enter,
        hub,
        tmp,
        preserved,
        macs,
      });
    });
    return {
      hosts,
      split: (groups) => hub.split(groups),
      join: () => hub.join(),
      release: () => {
        hub.release();
        for (const holder of holders) holder.release();
      },
      ended: async () => {
        await Promise.all(holders.map((holder) => holder.ended()));
      },
    };
  } catch (error) {
    for (const holder of holders) holder.release();
    throw error;
  }
}
