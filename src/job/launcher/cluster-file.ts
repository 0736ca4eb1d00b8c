/**
 * `cluster.json` in the directory of a local cluster: where its agents are and the token they ask for, so that
 * `shoal status` finds a cluster that runs. Only its owner can read it. It also keeps two launchers out of one
 * directory.
 */
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import * as v from 'valibot';
import { ShoalError } from '../../errors/errors.js';

const NAME = 'cluster.json';

const Schema = v.object({
  job: v.string(),
  launcher: v.pipe(v.number(), v.safeInteger(), v.minValue(1)),
  /** When that process started: its number may be given to another one. */
  startedMs: v.optional(v.number()),
  /** The same as the kernel counts it, where it does. */
  startTicks: v.optional(v.string()),
  token: v.string(),
  /** The chief's agent first, then the ps: they know the steps of all. None for a job that trains in one process. */
  agents: v.array(v.string()),
});
export type ClusterFile = v.InferOutput<typeof Schema>;

/** The cluster that runs in this directory, if one does. */
export function readClusterFile(dir: string): ClusterFile | undefined {
  let text: string;
  try {
    text = readFileSync(join(dir, NAME), 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined;
    throw new ShoalError('SHOAL_CONFIG', `cannot read ${join(dir, NAME)}`, { cause: error });
  }
  const parsed = v.safeParse(v.pipe(v.string(), v.parseJson(), Schema), text);
  // A launcher that was killed leaves the file of a cluster that is gone.
  return parsed.success && isRunning(parsed.output) ? parsed.output : undefined;
}

/** Claims the directory. */
export function claimDirectory(dir: string): void {
  const other = readClusterFile(dir);
  if (other === undefined) return;
  // In a container that was started again, the process that left the file may have had the number of this one.
  if (other.launcher === process.pid && other.startedMs !== performance.timeOrigin) return;
  throw new ShoalError(
    'SHOAL_CONFIG',
    `job ${other.job} runs in ${dir} already, launched by process ${other.launcher}`,
    {
      hint: `stop that one, or name another directory with --dir; if process ${other.launcher} is no shoal, remove ${join(dir, NAME)}`,
    },
  );
}

export function writeClusterFile(dir: string, file: ClusterFile): void {
  mkdirSync(dir, { recursive: true });
  const draft = join(dir, `.${NAME}.${process.pid}`);
  const startedMs = performance.timeOrigin;
  const startTicks = startOf(process.pid);
  writeFileSync(draft, `${JSON.stringify({ startedMs, startTicks, ...file }, null, 2)}\n`, { mode: 0o600 });
  renameSync(draft, join(dir, NAME));
}

export function removeClusterFile(dir: string): void {
  rmSync(join(dir, NAME), { force: true });
}

function isRunning({ launcher, startTicks }: ClusterFile): boolean {
  try {
    process.kill(launcher, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EPERM') return false;
  }
  const now = startOf(launcher);
  return startTicks === undefined || now === undefined || now === startTicks;
}

/** When a process started, on Linux: the 22nd value of its line, counted behind its name, which may hold anything. */
function startOf(pid: number): string | undefined {
  try {
    const line = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return line.slice(line.lastIndexOf(')') + 2).split(' ')[19];
  } catch {
    return undefined;
  }
}
