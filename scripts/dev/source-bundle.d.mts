export function ensureSourceBundle(
  root: string,
  options?: {
    readonly env?: NodeJS.ProcessEnv;
    readonly signal?: AbortSignal;
    readonly log?: (line: string) => void;
  },
): Promise<void>;
export function bundleIsCurrent(root: string): boolean;
