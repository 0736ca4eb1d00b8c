/** Starts the set-up script in a separate process, with the cache and package index of the test. */
import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { PLATFORM } from './fake-tensorflow.js';

export const ROOT = fileURLToPath(new URL('../../', import.meta.url));
export const SETUP = fileURLToPath(new URL('../../scripts/setup/main.mjs', import.meta.url));

export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Started {
  readonly child: ChildProcess;
  readonly ended: Promise<Ended>;
  /** The output so far. */
  readonly stdout: () => string;
  readonly stderr: () => string;
}

export interface SetupRun {
  readonly lockFile?: string;
  readonly cache: string;
  readonly index?: string;
  readonly args?: readonly string[];
  readonly platform?: string;
  readonly env?: Readonly<Record<string, string | undefined>>;
}

export function startSetup({
  lockFile,
  cache,
  index,
  args = [],
  platform = PLATFORM,
  env = {},
}: SetupRun): Started {
  const lock = lockFile === undefined ? [] : ['--lock', lockFile, '--platform', platform];
  return startNode([SETUP, ...lock, ...args], {
    SHOAL_CACHE: cache,
    PIP_FIND_LINKS: undefined,
    PIP_INDEX_URL: index ?? 'http://127.0.0.1:9/simple',
    ...env,
  });
}

/** The environment of this process without settings of Shoal and Node, plus `extra`. */
export function childEnvironment(extra: Readonly<Record<string, string | undefined>>): NodeJS.ProcessEnv {
  const foreign = /^(?:SHOAL_|UV_|NODE_OPTIONS|VITEST|npm_)/;
  return {
    ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !foreign.test(name))),
    ...extra,
  };
}

/** Starts Node in `childEnvironment(env)`, in this process' directory by default. */
export function startNode(
  args: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
  { cwd }: { readonly cwd?: string } = {},
): Started {
  const child = spawn(process.execPath, args, {
    cwd,
    env: childEnvironment(env),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  const ended = new Promise<Ended>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code, signal) => resolve({ code, signal, stdout, stderr }));
  });
  return { child, ended, stdout: () => stdout, stderr: () => stderr };
}

/** Waits for a condition; the timeout error names it. */
export async function waitUntil(what: string, condition: () => boolean, timeoutMs = 120_000): Promise<void> {
  const deadline = Date.now() + timeoutMs;
  while (!condition()) {
    if (Date.now() > deadline) throw new Error(`timed out after ${timeoutMs} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
