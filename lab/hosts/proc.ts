/** Reads /proc. On systems without it every result is "unknown". */
import { readdir, readFile } from 'node:fs/promises';
import { sleep } from '../../src/base/async/deadline.js';
import { ShoalError } from '../../src/base/errors/errors.js';

export interface ProcessStat {
  readonly pid: number;
  readonly parent: number;
  /** One letter: R, S, D, T (stopped), Z (dead, not yet waited for)… */
  readonly state: string;
  readonly startTicks: number;
}

export async function processStat(pid: number): Promise<ProcessStat | undefined> {
  let text: string;
  try {
    text = await readFile(`/proc/${pid}/stat`, 'utf8');
  } catch {
    return undefined;
  }
  // The command, in parentheses, may itself hold spaces and parentheses.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return { pid, state: fields[0] ?? '?', parent: Number(fields[1]), startTicks: Number(fields[19]) };
}

/** True while the process exists and is not a zombie. */
export async function isRunning(pid: number): Promise<boolean> {
  const stat = await processStat(pid);
  return stat !== undefined && stat.state !== 'Z' && stat.state !== 'X';
}

/** The process and its descendants, parents first. */
export async function processTree(root: number): Promise<number[]> {
  const children = new Map<number, number[]>();
  const pids = await readdir('/proc').catch(() => [] as string[]);
  const stats = await Promise.all(
    pids.filter((name) => /^\d+$/.test(name)).map((pid) => processStat(Number(pid))),
  );
  for (const stat of stats) {
    if (stat === undefined) continue;
    const siblings = children.get(stat.parent);
    if (siblings === undefined) children.set(stat.parent, [stat.pid]);
    else siblings.push(stat.pid);
  }
  const tree = [root];
  for (const pid of tree) tree.push(...(children.get(pid) ?? []));
  return tree;
}

/** Polls until `holds` is true. */
export async function until(
  what: string,
  holds: () => Promise<boolean> | boolean,
  timeoutMs: number,
  everyMs = 10,
): Promise<void> {
  const end = performance.now() + timeoutMs;
  while (!(await holds())) {
    if (performance.now() > end) throw new ShoalError('SHOAL_TIMEOUT', `${what}: not within ${timeoutMs} ms`);
    await sleep(everyMs);
  }
}
