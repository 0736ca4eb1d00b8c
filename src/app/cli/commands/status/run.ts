/** `shoal status`: queries a cluster for its state, once or repeatedly. */
import { sleep } from '../../../../base/async/deadline.js';
import { describeError, isShoalError } from '../../../../base/errors/errors.js';
import { moment } from '../../../../base/text/format.js';
import { askStatus } from '../../../../distributed/cluster/agent/status.js';
import { stopSignals } from '../../../job/launcher/stop-signals.js';
import type { ShoalContext } from '../../context.js';
import { describeFailureAsJson } from '../../failure.js';
import { type FindOptions, type FoundCluster, findCluster, findLocalRuns } from '../../job/find-cluster.js';
import type { StatusFlags } from './command.js';
import { describeLocalRun, describeStatus, localRunAsJson } from './format.js';

const WATCH_MS = 1000;
const HOME = '\x1b[H';
const CLEAR_LINE_END = '\x1b[K';
const CLEAR_SCREEN = '\x1b[2J';
const CLEAR_BELOW = '\x1b[J';

export async function runStatus(this: ShoalContext, flags: StatusFlags): Promise<void> {
  const { json, watch, verbose } = flags;
  const { stdout } = this.process;
  const where: FindOptions = { ...flags, env: process.env, cwd: process.cwd() };
  if (!watch) {
    stdout.write(`${await lookUp(where, { json, verbose, indent: 2 })}\n`);
    return;
  }
  const signals = stopSignals(this.outputClosed);
  const isScreen = process.stdout.isTTY === true && !json;
  if (isScreen) stdout.write(CLEAR_SCREEN);
  let wasFound = false;
  while (!signals.stop.aborted) {
    // Searched each time: a task may have moved, and an unreachable cluster may recover.
    const text = await queryStatus(where, flags, signals.stop).catch((error: unknown) => {
      if (!wasFound || !isShoalError(error, 'SHOAL_NOT_FOUND')) throw error;
      return undefined;
    });
    if (text === undefined && !json) stdout.write('the cluster has ended\n');
    if (text === undefined || signals.stop.aborted) break;
    wasFound = true;
    stdout.write(isScreen ? frame(text) : `${text}\n${json ? '' : '\n'}`);
    await sleep(WATCH_MS, signals.stop).catch(() => {});
  }
  signals.dispose();
}

/** Overwrites the last frame line by line: a screen that is cleared first would flicker. */
function frame(text: string): string {
  const lines = [...text.split('\n'), '', `${moment(Date.now())} · Ctrl-C ends`];
  return `${HOME}${lines.map((line) => `${line}${CLEAR_LINE_END}\n`).join('')}${CLEAR_BELOW}`;
}

async function queryStatus(
  where: FindOptions,
  { json, verbose }: StatusFlags,
  signal: AbortSignal,
): Promise<string> {
  try {
    return await lookUp(where, { json, verbose, signal });
  } catch (error) {
    if (!isShoalError(error, 'SHOAL_UNREACHABLE') && !signal.aborted) throw error;
    return json ? describeFailureAsJson(error) : describeError(error);
  }
}

interface LookUpOptions extends Pick<StatusFlags, 'json' | 'verbose'> {
  readonly indent?: number;
  readonly signal?: AbortSignal;
}

/** The state of the cluster; where none runs, of the jobs in one process. */
async function lookUp(where: FindOptions, { json, verbose, indent, signal }: LookUpOptions): Promise<string> {
  const local = findLocalRuns(where);
  let found: FoundCluster;
  try {
    found = findCluster(where);
  } catch (error) {
    const [only, ...others] = local;
    if (!only || !isShoalError(error, 'SHOAL_NOT_FOUND')) throw error;
    if (!json) return local.map(describeLocalRun).join('\n');
    return JSON.stringify(
      others.length === 0 ? localRunAsJson(only) : local.map(localRunAsJson),
      null,
      indent,
    );
  }
  const status = await askStatus({ ...found, signal });
  if (json) return JSON.stringify(status, null, indent);
  return [describeStatus(status, { verbose }), ...local.map(describeLocalRun)].join('\n');
}
