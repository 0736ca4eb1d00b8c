/**
 * The command line and the programs of a cluster in a few files, made of the sources of this checkout. A process that
 * loads them starts in a fraction of the time that the sources need, which is most of what a fault costs.
 */
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { bundlePrograms as bundle } from '../../scripts/dev/program-bundle.mjs';
import { ensureSourceBundle } from '../../scripts/dev/source-bundle.mjs';
import { isRunning } from '../hosts/proc.js';
import { ROOT } from '../hosts/root.js';

export interface Bundle extends AsyncDisposable {
  /** The file that runs the command line. */
  readonly shoal: string;
  /** The file of a program in it, by its path in the checkout. */
  readonly programOf: (source: string) => string;
}

const DIST = join(ROOT, 'dist');
const NAME = 'lab-';
/** Bundles programs, below the package: modules find its files by their own place. */
export async function bundlePrograms(sources: readonly string[]): Promise<Bundle> {
  await removeThoseLeft();
  // The command line takes the bundled modules for an installed package, whose entry point it loads before a job.
  await ensureSourceBundle(ROOT);
  const directory = join(DIST, `${NAME}${process.pid}`);
  const nameOf = (source: string) => basename(source, '.ts');
  const dispose = () => rm(directory, { recursive: true, force: true });
  await mkdir(directory, { recursive: true });
  try {
    await bundle(
      ROOT,
      [
        { out: 'cli', in: 'src/app/cli/main.ts' },
        ...sources.map((source) => ({ out: nameOf(source), in: source })),
      ],
      directory,
    );
    const shoal = join(directory, 'shoal.js');
    await writeFile(shoal, "import { main } from './cli.js';\nawait main(process.argv.slice(2));\n");
    return {
      shoal,
      programOf: (source) => join(directory, `${nameOf(source)}.js`),
      [Symbol.asyncDispose]: dispose,
    };
  } catch (error) {
    await dispose();
    throw error;
  }
}

/** Removes the bundles of processes that were killed. */
async function removeThoseLeft(): Promise<void> {
  for (const name of await readdir(DIST).catch(() => [])) {
    const pid = name.startsWith(NAME) ? Number(name.slice(NAME.length)) : Number.NaN;
    if (Number.isInteger(pid) && !(await isRunning(pid)))
      await rm(join(DIST, name), { recursive: true, force: true });
  }
}
