/** Types of oracle.mjs, for the TypeScript that imports it. */
export interface OracleOptions {
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly signal?: AbortSignal;
  readonly waitMs?: number;
  /** Logs a line for each action. */
  readonly log?: (line: string) => void;
}

/** The path of the oracle's Python. */
export function ensureOracle(options?: OracleOptions): Promise<string>;
