/**
 * The hub connects a lab's hosts: a bridge in its own network namespace. A host is disconnected by removing its
 * cable (a veth pair) from the bridge: its own end stays up, packets both ways are dropped silently. The network is
 * partitioned by attaching the cables to several bridges.
 *
 * A cable is slowed down with the kernel's netem if available; otherwise two taps and a relay between them
 * (relay.ts) replace it at the bridge.
 */
import { writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { invalid, ShoalError } from '../../src/base/errors/errors.js';
import { Holder } from './holder.js';
import { checkTraits, type NetworkTraits } from './host.js';
import { findTool, runTool, type Support } from './namespace-support.js';
import { markOf } from './naming.js';

type NamespaceSupport = Extract<Support, { kind: 'namespaces' }>;

const HUB_SCRIPT = fileURLToPath(new URL('./hub.sh', import.meta.url));
const RELAY_SCRIPT = fileURLToPath(new URL('./relay.ts', import.meta.url));

export interface Plug {
  readonly name: string;
  readonly mac: string;
  /** A process in the host's network namespace. */
  readonly pid: number;
}

interface Cable {
  readonly index: number;
  /** Number of the bridge that the cable belongs to, whether it is connected or not. */
  bridge: number;
  disconnected: boolean;
  slowed: 'no' | 'netem' | Holder;
}

export class Hub {
  readonly holder: Holder;
  readonly #directory: string;
  readonly #mark: string;
  /** Enters the hub's network and nothing else: the relay is a program on the owner's disk. */
  readonly #enter: () => readonly string[];
  readonly #ip: string;
  readonly #cables = new Map<string, Cable>();
  #bridges = 1;

  private constructor(holder: Holder, { tools, user }: NamespaceSupport, directory: string) {
    this.holder = holder;
    this.#directory = directory;
    this.#mark = markOf(basename(directory));
    const intoUser = user ? ['--user', '--preserve-credentials'] : [];
    this.#enter = () => [tools.nsenter, '-t', String(holder.pid), ...intoUser, '--net', '--'];
    this.#ip = tools.ip;
  }

  static async start(support: NamespaceSupport, directory: string): Promise<Hub> {
    const { tools, user } = support;
    const flags = user ? ['--user', '--map-root-user', '--net'] : ['--net'];
    const mark = markOf(basename(directory));
    const holder = new Holder('the hub', [tools.unshare, ...flags, 'sh', HUB_SCRIPT, directory], mark);
    await holder.waitForLine('up');
    return new Hub(holder, support, directory);
  }

  /** Connects every host. Called once. */
  async plug(plugs: readonly Plug[]): Promise<void> {
    const batch = plugs.flatMap(({ name, mac, pid }, index) => {
      this.#cables.set(name, { index, bridge: 0, disconnected: false, slowed: 'no' });
      return [
        `link add v${index} type veth peer name eth0 address ${mac} netns ${pid}`,
        `link set v${index} master br0 up`,
      ];
    });
    await writeFile(join(this.#directory, 'hub.net'), `${batch.join('\n')}\n`);
    this.holder.send('go');
    await this.holder.waitForLine('ready');
  }

  async disconnect(name: string): Promise<void> {
    const cable = this.#cable(name);
    cable.disconnected = true;
    await this.#rewire([cable]);
  }

  async reconnect(name: string): Promise<void> {
    const cable = this.#cable(name);
    cable.disconnected = false;
    await this.#rewire([cable]);
  }

  /** Hosts reach only hosts of their own group. Hosts in no group form another group. */
  async split(groups: readonly (readonly string[])[]): Promise<void> {
    const all = groups.flat();
    if (new Set(all).size !== all.length) throw invalid('split: a host can be in one group only');
    const cables = groups.map((group) => group.map((name) => this.#cable(name)));
    for (; this.#bridges <= groups.length; this.#bridges++) {
      await this.#batch([`link add br${this.#bridges} type bridge`, `link set br${this.#bridges} up`]);
    }
    for (const cable of this.#cables.values()) cable.bridge = 0;
    cables.forEach((group, i) => {
      for (const cable of group) cable.bridge = i + 1;
    });
    await this.#rewire([...this.#cables.values()]);
  }

  async join(): Promise<void> {
    for (const cable of this.#cables.values()) cable.bridge = 0;
    await this.#rewire([...this.#cables.values()]);
  }

  async slow(name: string, enterHost: readonly string[], traits: NetworkTraits): Promise<void> {
    checkTraits(traits);
    const cable = this.#cable(name);
    if (typeof cable.slowed === 'object') {
      cable.slowed.send(JSON.stringify(traits));
      return;
    }
    if (await this.#netem(cable, enterHost, traits)) cable.slowed = 'netem';
    else await this.#insertRelay(name, cable, traits);
  }

  async unslow(name: string, enterHost: readonly string[]): Promise<void> {
    const cable = this.#cable(name);
    const { slowed, index } = cable;
    cable.slowed = 'no';
    if (slowed === 'netem') {
      await runTool([...this.#enter(), 'tc', 'qdisc', 'del', 'dev', `v${index}`, 'root']);
      await runTool([...enterHost, 'tc', 'qdisc', 'del', 'dev', 'eth0', 'root']);
    } else if (slowed !== 'no') {
      slowed.release();
      await slowed.ended();
      await this.#batch([`link del s${index}`]);
      await this.#rewire([cable]);
    }
  }

  release(): void {
    for (const { slowed } of this.#cables.values()) if (typeof slowed === 'object') slowed.release();
  }

  #cable(name: string): Cable {
    const cable = this.#cables.get(name);
    if (cable === undefined) throw invalid(`the lab has no host ${name}`);
    return cable;
  }

  async #rewire(cables: readonly Cable[]): Promise<void> {
    await this.#batch(
      cables.map(({ index, bridge, disconnected, slowed }) => {
        const port = typeof slowed === 'object' ? `a${index}` : `v${index}`;
        return `link set ${port} ${disconnected ? 'nomaster' : `master br${bridge}`}`;
      }),
    );
  }

  async #batch(lines: readonly string[]): Promise<void> {
    await runTool([...this.#enter(), this.#ip, '-batch', '-'], `${lines.join('\n')}\n`);
  }

  /** False when this kernel has no netem. */
  async #netem(cable: Cable, enterHost: readonly string[], traits: NetworkTraits): Promise<boolean> {
    if ((await findTool('tc')) === undefined) return false;
    const { delayMs = 0, lossPct = 0, rateMbit } = traits;
    const rate = rateMbit === undefined ? [] : ['rate', `${rateMbit}mbit`];
    const discipline = [
      'root',
      'netem',
      'limit',
      '10000',
      'delay',
      `${delayMs}ms`,
      'loss',
      `${lossPct}%`,
      ...rate,
    ];
    try {
      await runTool([...this.#enter(), 'tc', 'qdisc', 'replace', 'dev', `v${cable.index}`, ...discipline]);
    } catch (error) {
      if (/qdisc kind is unknown|No such file/i.test((error as Error).message)) return false;
      throw error;
    }
    await runTool([...enterHost, 'tc', 'qdisc', 'replace', 'dev', 'eth0', ...discipline]);
    return true;
  }

  /** bridge — tap a … relay … tap b — small bridge s — the host's cable. */
  async #insertRelay(name: string, cable: Cable, traits: NetworkTraits): Promise<void> {
    const { index } = cable;
    const tsx = import.meta.resolve('tsx');
    const program = [process.execPath, '--import', tsx, RELAY_SCRIPT, `a${index}`, `b${index}`];
    const relay = new Holder(`the slow cable of ${name}`, [...this.#enter(), ...program], this.#mark);
    try {
      relay.send(JSON.stringify(traits));
      await relay.waitForLine('ready');
    } catch (cause) {
      relay.release();
      throw new ShoalError('SHOAL_UNSUPPORTED', `${name}: this machine cannot slow a network down`, {
        hint: 'it needs netem (a kernel module) and tc (apt-get install iproute2), or the right to open /dev/net/tun',
        cause,
      });
    }
    relay.unref();
    cable.slowed = relay;
    await this.#batch([
      `link add s${index} type bridge`,
      `link set s${index} up`,
      `link set b${index} up master s${index}`,
      `link set a${index} up`,
      `link set v${index} master s${index}`,
    ]);
    await this.#rewire([cable]);
  }
}
