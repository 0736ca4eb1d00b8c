/** Runs programs in separate processes, to test per-process state (memory, terminal, native library). */
import { fileURLToPath, pathToFileURL } from 'node:url';
import { locateTensorFlow } from '../src/tensorflow/native/library/locate.js';
import { type Ended, type Started, startNode } from './setup/run-setup.js';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
export const LOADER = pathToFileURL(`${ROOT}node_modules/tsx/dist/loader.mjs`).href;

/** The URL of a file of the repository, for imports in a program. */
export const moduleUrl = (file: string): string => pathToFileURL(ROOT + file).href;

const PRELUDE = `
const { tf, Tensor, Graph, Session, liveHandles, listLiveHandles } = await import('${moduleUrl('src/index.ts')}');
const raw = await import('${moduleUrl('src/tensorflow/ops/generated/index.ts')}');
`;

export interface ProgramOptions {
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Command-line flags of Node. */
  readonly flags?: readonly string[];
}

/** Starts a program that has `tf`, `raw`, `Session` etc. in scope. */
export function startProgram(body: string, { env = {}, flags = [] }: ProgramOptions = {}): Started {
  return startNode([...flags, '--import', LOADER, '--input-type=module', '-e', PRELUDE + body], {
    SHOAL_TF_DIR: locateTensorFlow().dir,
    UV_THREADPOOL_SIZE: '8',
    ...env,
  });
}

export function runProgram(body: string, options: ProgramOptions = {}): Promise<Ended> {
  return startProgram(body, options).ended;
}

/** Returns the last line of the program's output, parsed as JSON; throws with its stderr when it failed. */
export async function answerOf<T>(body: string, options: ProgramOptions = {}): Promise<T> {
  const { code, stdout, stderr } = await runProgram(body, options);
  if (code !== 0) throw new Error(`The program exited with code ${code}:\n${stderr}`);
  return JSON.parse(stdout.trimEnd().split('\n').at(-1) as string) as T;
}
