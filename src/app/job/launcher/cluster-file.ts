/**
 * `cluster.json` in the directory of a local cluster: the addresses of its agents and their token, so that
 * `shoal status` finds a running cluster. For a job in one process it has the step. Only its owner can read it. It also
 * locks the directory against a second launcher.
 */
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import * as v from 'valibot';
import { ShoalError } from '../../../base/errors/errors.js';
import { makeDirectorySync } from '../../../base/files/directories.js';

const NAME = 'cluster.json';

const Schema = v.object({
  job: v.string(),
  launcher: v.pipe(v.number(), v.safeInteger(), v.minValue(1)),
  /** When the launcher started: its pid may be reused. */
  startedMs: v.optional(v.number()),
  /** The launcher's start time in the kernel's clock ticks, on Linux. */
  startTicks: v.optional(v.string()),
  token: v.string(),
  /** The chief's agent first, then the ps: they know the steps of all tasks. Empty for a job in one process. */
  agents: v.array(v.string()),
  /** Of a job in one process, which has no agent to ask. */
  progress: v.optional(v.object({ step: v.number(), lastStep: v.number() })),
});
export type ClusterFile = v.InferOutput<typeof Schema>;

/** The cluster that runs in this directory, if any. */
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
  // A launcher that was killed leaves its file behind.
  return parsed.success && isRunning(parsed.output) ? parsed.output : undefined;
}

/** Throws if another cluster runs in the directory. */
export function claimDirectory(dir: string): void {
  const other = readClusterFile(dir);
  if (other === undefined) return;
  // After the restart of a container, the process that left the file may have had the pid of this one.
  if (other.launcher === process.pid && other.startedMs !== performance.timeOrigin) return;
  throw new ShoalError(
    'SHOAL_CONFIG',
    `job ${other.job} already runs in ${dir}, launched by process ${other.launcher}`,
    {
      hint: `stop it, or choose another directory with --dir; if process ${other.launcher} is not shoal, remove ${join(dir, NAME)}`,
    },
  );
}

export function writeClusterFile(dir: string, file: ClusterFile): void {
  makeDirectorySync(dir);
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

/** When a process started, on Linux: field 22 of its stat line. The command in field 2 may contain spaces. */
function startOf(pid: number): string | undefined {
  try {
    const line = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return line.slice(line.lastIndexOf(')') + 2).split(' ')[19];
  } catch {
    return undefined;
  }
}
