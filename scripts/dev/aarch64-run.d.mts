/** Types of aarch64-run.mjs, for the TypeScript that imports it. */

export interface ChecksOptions {
  /** The program of the ps, with its arguments. */
  readonly ps: readonly string[];
  /** The program that runs the checks, with its arguments. */
  readonly worker: readonly string[];
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly deadlineMs: number;
  readonly signal?: AbortSignal;
  readonly print?: (line: string) => void;
}

export function runChecks(
  options: ChecksOptions,
): Promise<{ readonly passed: number; readonly failed: number }>;
