/** The memory of a process, as the kernel accounts it. */
import { readFile } from 'node:fs/promises';

export interface Memory {
  /** All resident pages, including shared ones. */
  readonly residentMb: number;
  /** Resident pages, each shared page divided by the number of processes that map it. */
  readonly proportionalMb: number;
  /** Private pages. */
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

/** Samples the proportional memory of processes and records the peaks. */
export class MemoryWatch implements Disposable {
  readonly #peaks = new Map<number, number>();
  readonly #timer: NodeJS.Timeout;
  #together = 0;

  constructor(pids: readonly number[], everyMs = 500) {
    const look = async () => {
      const all = await Promise.all(pids.map((pid) => memoryOf(pid).catch(() => undefined)));
      let sum = 0;
      for (const [i, memory] of all.entries()) {
        if (!memory) continue;
        const pid = pids[i] as number;
        sum += memory.proportionalMb;
        this.#peaks.set(pid, Math.max(memory.proportionalMb, this.#peaks.get(pid) ?? 0));
      }
      this.#together = Math.max(this.#together, sum);
    };
    this.#timer = setInterval(() => void look(), everyMs);
  }

  peakMb(pid: number): number {
    return this.#peaks.get(pid) ?? 0;
  }

  /** The peak of the sum over all processes. */
  get togetherMb(): number {
    return this.#together;
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }
}
