/** The memory of a process in MB, from Linux's `/proc`; undefined on other systems. */
import { readFile, writeFile } from 'node:fs/promises';

/** Resets the peak resident size and returns the current one. */
export async function resetPeak(pid: number): Promise<number | undefined> {
  try {
    await writeFile(`/proc/${pid}/clear_refs`, '5');
  } catch {
    return undefined;
  }
  return statusOf(pid, 'VmRSS');
}

/** The peak resident size since `resetPeak`, or since the process started. */
export const peak = (pid: number): Promise<number | undefined> => statusOf(pid, 'VmHWM');

async function statusOf(pid: number, field: string): Promise<number | undefined> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
  const found = new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(status)?.[1];
  return found === undefined ? undefined : Number(found) / 1024;
}

/** Returns the result of `work`, and by how much the peak of the process exceeded its memory before. */
export async function peakGrowth<T>(pid: number, work: () => Promise<T>): Promise<[T, number | undefined]> {
  const before = await resetPeak(pid);
  const result = await work();
  const highest = await peak(pid);
  return [result, before === undefined || highest === undefined ? undefined : Math.max(0, highest - before)];
}
