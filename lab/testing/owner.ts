/**
 * A program that creates a lab and waits to be killed. Prints one line of JSON: what must not exist after its end.
 *
 *   owner.ts namespaces|directories stay|exit|throw
 */
import { readlink } from 'node:fs/promises';
import { isShoalError } from '../../src/base/errors/errors.js';
import { Lab, type LabMode } from '../hosts/hosts.js';

export interface Belongings {
  readonly isolated: boolean;
  readonly directory: string;
  readonly guardPid: number;
  /** Processes on the hosts, some of which left their parent's session and ignore signals. */
  readonly pids: readonly number[];
  /** The hosts' network namespaces, as /proc names them. */
  readonly networks: readonly string[];
}

// Both print their pid; the one in the background is soon orphaned.
const STUBBORN = `setsid sh -c 'trap "" TERM INT HUP; echo pid $$; sleep 1000; sleep 1000' &
trap "" TERM INT HUP; echo pid $$; exec sleep 1000`;

const [mode, end] = process.argv.slice(2);
const lab = await Lab.create({ hosts: 2, mode: mode as LabMode, warn: () => {} });
const pids: number[] = [];
const networks: string[] = [];
for (const host of lab.hosts) {
  const stubborn = host.start('sh', ['-c', STUBBORN]);
  await stubborn.waitFor(/pid \d+\s+pid \d+/);
  pids.push(...[...stubborn.output.matchAll(/pid (\d+)/g)].map((match) => Number(match[1])));
  if (lab.isolated) networks.push(await readlink(`/proc/${stubborn.pid}/ns/net`));
}
// A slow link may need a separate process.
await lab
  .host(0)
  .slow({ delayMs: 1 })
  .catch((error: unknown) => {
    if (!isShoalError(error, 'SHOAL_UNSUPPORTED')) throw error;
  });
const { isolated, directory, guardPid } = lab;
const belongings: Belongings = { isolated, directory, guardPid, pids, networks };
console.log(JSON.stringify(belongings));
if (end === 'exit') process.exit(0);
if (end === 'throw') throw new Error('the owner fails');
setInterval(() => {}, 1000);
