/** The memory of a process as Linux tells it, in MB. Elsewhere there is no such thing, and nothing is told. */
import { readFile, writeFile } from 'node:fs/promises';

/** Forgets the highest resident size so far; tells the present one. */
export async function resetPeak(pid: number): Promise<number | undefined> {
  try {
    await writeFile(`/proc/${pid}/clear_refs`, '5');
  } catch {
    return undefined;
  }
  return statusOf(pid, 'VmRSS');
}

/** The highest resident size since `resetPeak`. */
export const peak = (pid: number): Promise<number | undefined> => statusOf(pid, 'VmHWM');

async function statusOf(pid: number, field: string): Promise<number | undefined> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
  const found = new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(status)?.[1];
  return found === undefined ? undefined : Number(found) / 1024;
}

/** Runs something and tells by how much the process grew meanwhile at most. */
export async function growth<T>(pid: number, work: () => Promise<T>): Promise<[T, number | undefined]> {
  const before = await resetPeak(pid);
  const result = await work();
  const highest = await peak(pid);
  return [result, before === undefined || highest === undefined ? undefined : Math.max(0, highest - before)];
}
