/** Types of processes.mjs, for the TypeScript that imports it. */

export interface RunOptions {
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly cwd?: string;
  readonly signal?: AbortSignal;
}

export function run(
  command: string,
  args: readonly string[],
  options?: RunOptions,
): Promise<{ readonly code: number; readonly output: string; readonly missing: boolean }>;

export function interruptible<T>(task: (signal: AbortSignal) => Promise<T>): Promise<T>;
