/** How much memory a process has, as the kernel counts it. */
import { readFile } from 'node:fs/promises';

export interface Memory {
  /** Everything that is resident, shared pages in full. */
  readonly residentMb: number;
  /** Resident, each shared page divided by the processes that have it. */
  readonly proportionalMb: number;
  /** Pages that are this process's alone. */
  readonly ownMb: number;
}

export async function memoryOf(pid: number): Promise<Memory> {
  const text = await readFile(`/proc/${pid}/smaps_rollup`, 'utf8');
  const mb = (...names: string[]) =>
    names.reduce(
      (sum, name) => sum + Number(new RegExp(`^${name}: +(\\d+) kB`, 'm').exec(text)?.[1] ?? 0),
      0,
    ) / 1024;
  return {
    residentMb: mb('Rss'),
    proportionalMb: mb('Pss'),
    ownMb: mb('Private_Clean', 'Private_Dirty'),
  };
}
