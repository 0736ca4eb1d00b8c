/**
 * The output of a generator is the complete content of one folder: it replaces the folder, or is compared with it. A
 * generated folder contains no hand-written files, unless it is shared.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';

export interface GeneratedFolder {
  /** The folder, relative to the root of the repository. */
  readonly folder: string;
  /** File content by path inside the folder. */
  readonly files: ReadonlyMap<string, string>;
  /** Whether the folder has other files, which stay as they are. Default: false. */
  readonly isShared?: boolean;
}

function filesUnder(folder: string): string[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)));
}

/** The paths (from the root) of files that differ, are missing, or should not exist. */
export function differences(root: string, output: GeneratedFolder): string[] {
  const folder = join(root, output.folder);
  const isPresent = (path: string) => existsSync(join(folder, path));
  const present = new Set(output.isShared ? [...output.files.keys()].filter(isPresent) : filesUnder(folder));
  const differing: string[] = [];
  for (const [path, content] of output.files) {
    if (!present.delete(path) || readFileSync(join(folder, path), 'utf8') !== content) {
      differing.push(join(output.folder, path));
    }
  }
  for (const path of present) differing.push(join(output.folder, path));
  return differing.sort();
}

function removeIfEmpty(folder: string): void {
  if (readdirSync(folder).length > 0) return;
  rmdirSync(folder);
  removeIfEmpty(dirname(folder));
}

/** Makes the folder contain exactly the generated files; unchanged files keep their modification times. */
export function write(root: string, output: GeneratedFolder): string[] {
  const differing = differences(root, output);
  for (const path of differing) {
    const content = output.files.get(relative(output.folder, path));
    const target = join(root, path);
    if (content === undefined) {
      rmSync(target);
      removeIfEmpty(dirname(target));
      continue;
    }
    mkdirSync(dirname(target), { recursive: true });
    writeFileSync(target, content);
  }
  return differing;
}
