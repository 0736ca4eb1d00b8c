/** `shoal status`: queries a cluster for its state, once or repeatedly. */
import { sleep } from '../../../async/deadline.js';
import { askStatus, describeStatus } from '../../../cluster/agent/status.js';
import { isShoalError, messageOf } from '../../../errors/errors.js';
import { stopSignals } from '../../../job/launcher/stop-signals.js';
import type { ShoalContext } from '../../context.js';
import { type FindOptions, findCluster } from '../../job/find-cluster.js';
import type { StatusFlags } from './command.js';

const WATCH_MS = 1000;
const HOME_AND_CLEAR = '\x1b[H\x1b[2J';

export async function runStatus(this: ShoalContext, flags: StatusFlags): Promise<void> {
  const { json, watch } = flags;
  const { stdout } = this.process;
  const where: FindOptions = { ...flags, env: process.env, cwd: process.cwd() };
  if (!watch) {
    stdout.write(`${describeStatus(await askStatus(findCluster(where)), { json })}\n`);
    return;
  }
  const signals = stopSignals();
  const isTerminal = process.stdout.isTTY === true;
  while (!signals.stop.aborted) {
    // Searched each time: a task may have moved, and an unreachable cluster may recover.
    const text = await queryStatus(where, json, signals.stop);
    if (signals.stop.aborted) break;
    stdout.write(isTerminal && !json ? `${HOME_AND_CLEAR}${text}\n` : `${text}\n${json ? '' : '\n'}`);
    await sleep(WATCH_MS, signals.stop).catch(() => {});
  }
  signals.dispose();
}

async function queryStatus(where: FindOptions, json: boolean, signal: AbortSignal): Promise<string> {
  try {
    const status = await askStatus({ ...findCluster(where), signal });
    return json ? JSON.stringify(status) : describeStatus(status);
  } catch (error) {
    if (!isShoalError(error, 'SHOAL_UNREACHABLE') && !signal.aborted) throw error;
    return json ? JSON.stringify({ error: messageOf(error) }) : messageOf(error);
  }
}
