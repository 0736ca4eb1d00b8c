/** What tasks that have ended must not leave: processes, sockets, temporary files, checkpoints beyond those kept. */
import { readdir, readFile } from 'node:fs/promises';
import type { Context } from '../experiment.js';
import type { Scenario } from '../scenarios/scenario-run.js';
import type { Lab, LabHost } from './hosts.js';

/** Caches of the TypeScript loader, which exist in a checkout only. */
const LOADERS_OWN = /^(tsx-|node-compile-cache)/;

/** Workers that leave before the last save keep the checkpoints that it replaces until they return. */
const LEFT_EARLY = /\/worker-[1-9]\d*\//;

export interface LeftoverOptions {
  /** The number of checkpoints that are kept. */
  readonly keeps: number;
  /** Hosts without tasks in the run: old checkpoints stay there until their tasks return. */
  readonly away?: readonly LabHost[];
  /** The files that are expected on a disk. */
  readonly belongs: readonly string[];
}

export class Leftovers {
  readonly #lab: Lab;
  readonly #temporary: ReadonlyMap<LabHost, string>;

  private constructor(lab: Lab, temporary: ReadonlyMap<LabHost, string>) {
    this.#lab = lab;
    this.#temporary = temporary;
  }

  /** Records the temporary files before the first run. */
  static async before(lab: Lab): Promise<Leftovers> {
    const found = new Map<LabHost, string>();
    for (const host of lab.hosts) found.set(host, await temporaryFiles(host, lab));
    return new Leftovers(lab, found);
  }

  async check(
    ctx: Context,
    scenario: Scenario,
    { keeps, belongs, away = [] }: LeftoverOptions,
  ): Promise<void> {
    const left: string[] = (await processesWith(scenario.token)).map((pid) => `process ${pid}`);
    const attempts = new Set<string>();
    for (const host of this.#lab.hosts) {
      const say = (what: string) => left.push(`${host.name}: ${what}`);
      if (this.#lab.isolated) for (const socket of await sockets(host)) say(`socket ${socket}`);
      const temporary = await temporaryFiles(host, this.#lab);
      if (temporary !== this.#temporary.get(host)) say(`temporary files ${temporary.replaceAll('\n', ' ')}`);
      for (const name of await host.listFiles()) if (!belongs.includes(name)) say(name);
      const { stdout } = await host.exec('find', [
        '.',
        '-name',
        '*@*',
        '-o',
        '-name',
        '*.part',
        '-o',
        '-name',
        '.*.*',
      ]);
      for (const path of stdout.split('\n')) {
        const name = path.slice(path.lastIndexOf('/') + 1);
        const attempt = /^(.+@.+)$/.exec(name)?.[1];
        if (attempt !== undefined) {
          if (!LEFT_EARLY.test(path) && !away.includes(host)) attempts.add(attempt);
        } else if (name !== '') say(path);
      }
    }
    if (attempts.size > keeps) left.push(`${attempts.size} checkpoints: ${[...attempts].join(' ')}`);
    ctx.check(
      'nothing is left behind: no process, socket or temporary file, no more checkpoints than are kept',
      left.length === 0,
      left.join('; ') || `${attempts.size} checkpoints of at most ${keeps}`,
    );
  }
}

/** Connections that their processes have closed: the system ends them by itself, late if packets were dropped. */
const CLOSED = /^(TIME-WAIT|FIN-WAIT-[12]|CLOSING|LAST-ACK)/;

/** All sockets that processes have not closed. */
async function sockets(host: LabHost): Promise<string[]> {
  const { stdout } = await host.exec('ss', ['-Htan']);
  return stdout.split('\n').filter((line) => line !== '' && !CLOSED.test(line));
}

/** Includes shared memory if hosts are isolated. */
async function temporaryFiles(host: LabHost, { isolated }: Lab): Promise<string> {
  const { stdout } = await host.exec('sh', ['-c', `ls -A "$TMPDIR"${isolated ? '; ls -A /dev/shm' : ''}`]);
  return stdout
    .split('\n')
    .filter((name) => !LOADERS_OWN.test(name))
    .join('\n');
}

/** The processes whose environment contains a word. */
async function processesWith(word: string): Promise<number[]> {
  const pids = (await readdir('/proc').catch(() => [] as string[])).filter((name) => /^\d+$/.test(name));
  const found: number[] = [];
  for (const pid of pids) {
    // The process may have ended, or belong to another user.
    const environment = await readFile(`/proc/${pid}/environ`, 'latin1').catch(() => '');
    if (environment.includes(word)) found.push(Number(pid));
  }
  return found;
}
