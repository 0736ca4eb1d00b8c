/** Where in the user's program an error arose. */
import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { PACKAGE_ROOT } from '../../base/files/package.js';

const PACKAGE = fileURLToPath(PACKAGE_ROOT);
const FRAME = /^ {4}at (?:.*\()?(?:async )?(file:\/\/)?(\/[^?]*?)(?:\?[^:]*)?:(\d+):(\d+)\)?$/;

/**
 * The first stack frame of an error, or of its causes, that is neither in Shoal nor in another package, as
 * `file:line:column`; undefined if there is none.
 */
export function userFrameOf(error: unknown, directory = process.cwd()): string | undefined {
  if (!(error instanceof Error)) return undefined;
  for (const frame of (error.stack ?? '').split('\n')) {
    const [, scheme, place = '', line, column] = FRAME.exec(frame) ?? [];
    const path = scheme === undefined ? place : decodeURIComponent(place);
    // What follows is the caller of the command line.
    if (isIn(path, 'src/app/cli/')) break;
    if (path === '' || path.includes('/node_modules/') || isIn(path, 'src/', 'dist/', 'scripts/')) continue;
    const short = relative(directory, path);
    return `${short.startsWith('..') ? path : short}:${line}:${column}`;
  }
  return userFrameOf(error.cause, directory);
}

const isIn = (path: string, ...directories: readonly string[]): boolean =>
  directories.some((directory) => path.startsWith(`${PACKAGE}${directory}`));
