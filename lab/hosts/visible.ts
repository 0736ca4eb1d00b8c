/**
 * The part of the owner's temp directory that hosts see. Each host has its own /tmp, which hides the owner's; programs
 * under /tmp (the package, Node, TensorFlow's library) are mounted into it.
 */
import { existsSync, realpathSync, statSync } from 'node:fs';
import { basename, dirname, isAbsolute, relative, resolve, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { cacheDir } from '../../scripts/setup/locate.mjs';

export interface Visible {
  /** Where it appears, relative to the host's /tmp. */
  readonly target: string;
  readonly source: string;
}

const PACKAGE = fileURLToPath(new URL('../..', import.meta.url));

function within(path: string, root: string): string | undefined {
  const rest = relative(root, path);
  return rest === '' || rest === '..' || rest.startsWith(`..${sep}`) || isAbsolute(rest) ? undefined : rest;
}

/** A file `X/bin/name` also needs the siblings of `bin`. */
function home(path: string): string {
  if (statSync(path).isDirectory() || basename(dirname(path)) !== 'bin') return path;
  return dirname(dirname(path));
}

/**
 * The paths to show: this package, Node, the cache with TensorFlow's library, every path that a `SHOAL_*` variable
 * names, and `asked`.
 * `roots` are the directories that hosts have of their own.
 */
export function visiblePaths(
  roots: readonly string[],
  asked: readonly string[],
  env: NodeJS.ProcessEnv = process.env,
): Visible[] {
  const named = Object.entries(env)
    .filter(([name, value]) => name.startsWith('SHOAL_') && value !== undefined && isAbsolute(value))
    .map(([, value]) => value as string);
  const found = new Map<string, string>();
  for (const path of [PACKAGE, process.execPath, cacheDir(env), ...named, ...asked]) {
    if (!existsSync(path)) continue;
    for (const candidate of [resolve(path), realpathSync(path)]) {
      for (const root of roots) {
        const wide = home(candidate);
        const source = within(wide, root) === undefined ? candidate : wide;
        const target = within(source, root);
        if (target !== undefined) found.set(target, source);
      }
    }
  }
  // A path inside another is shown with it.
  const targets = [...found.keys()].sort((a, b) => a.length - b.length);
  const outermost: Visible[] = [];
  for (const target of targets) {
    if (outermost.some((outer) => within(target, outer.target) !== undefined)) continue;
    outermost.push({ target, source: found.get(target) ?? '' });
  }
  return outermost;
}
