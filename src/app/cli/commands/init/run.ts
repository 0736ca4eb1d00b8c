/** `shoal init`: creates a project. */
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { CommandContext } from '@stricli/core';
import { ShoalError } from '../../../../base/errors/errors.js';
import { requireDirectory } from '../../../../base/files/directories.js';
import { isCheckout, PACKAGE_ROOT, packageVersion } from '../../../../base/files/package.js';
import { projectFiles } from './project.js';

export async function runInit(
  this: CommandContext,
  _flags: Record<never, never>,
  directory: string,
): Promise<void> {
  const target = resolve(directory);
  const name = projectName(basename(target));
  requireDirectory(target, 'the directory of the project');
  if ((await readdir(target)).length > 0) {
    throw new ShoalError('SHOAL_ALREADY_EXISTS', `${target} is not empty`, {
      hint: 'Choose another name, or remove its files.',
    });
  }
  for (const [file, text] of Object.entries(projectFiles({ name, shoal: await ownSource() })))
    await writeFile(join(target, file), text);
  this.process.stdout.write(
    `created ${target}\n\n` +
      `  cd ${/^[\w./-]+$/.test(directory) ? directory : JSON.stringify(directory)}\n` +
      '  npm install\n' +
      '  npx shoal setup        fetch the TensorFlow library, once per machine\n' +
      '  npm start              train in one process\n' +
      '  npm run cluster        train on a local cluster of 1 ps and 2 workers\n',
  );
}

/** The name of the package and of the job. */
function projectName(directory: string): string {
  const name = directory
    .toLowerCase()
    .replace(/[^a-z0-9-]+/g, '-')
    .replace(/^-+|-+$/g, '');
  if (name !== '') return name;
  throw new ShoalError('SHOAL_INVALID_ARGUMENT', `'${directory}' is not a name for a project`, {
    hint: 'Use letters and digits.',
  });
}

/** How a project depends on this package: by its version, or by the file from which it was installed. */
async function ownSource(): Promise<string> {
  const directory = fileURLToPath(PACKAGE_ROOT);
  // A checkout is in no registry.
  if (isCheckout) return `file:${directory}`;
  const user = resolve(directory, '../..');
  const { dependencies, devDependencies } = await readFile(join(user, 'package.json'), 'utf8').then(
    (text) => JSON.parse(text) as Record<string, Record<string, string> | undefined>,
    () => ({ dependencies: undefined, devDependencies: undefined }),
  );
  const source = dependencies?.shoal ?? devDependencies?.shoal;
  return source?.startsWith('file:')
    ? `file:${resolve(user, source.slice('file:'.length))}`
    : `^${packageVersion()}`;
}
