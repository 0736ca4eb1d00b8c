/** The runs in the directories that a user names: jobs, the trials of sweeps, directories of event files. */
import { readFile, stat } from 'node:fs/promises';
import { basename, join, relative, sep } from 'node:path';
import { ShoalError } from '../../../base/errors/errors.js';
import { namesIn } from './directory-run.js';

export interface FoundRun {
  /** Unlike that of all others. */
  readonly name: string;
  readonly directory: string;
  /** The parameters of a trial of a sweep, and how it ended. */
  readonly params: string;
  readonly state: string;
}

const MOST_RUNS = 40;
const TASK_DIRECTORY = /^(chief|worker|ps|evaluator)-\d+$/;

/** A directory whose directories are jobs stands for all of them. */
export async function findRuns(directories: readonly string[]): Promise<readonly FoundRun[]> {
  const found = (await Promise.all(directories.map(jobsIn))).flat();
  const unique = [...new Set(found)];
  if (unique.length > MOST_RUNS)
    throw new ShoalError('SHOAL_INVALID_ARGUMENT', `there are ${unique.length} jobs in these directories`, {
      hint: `The page shows at most ${MOST_RUNS} side by side: name the directories of some of them.`,
    });
  const names = namesOf(unique);
  return await Promise.all(
    unique.map(async (directory, i) => ({ name: names[i]!, directory, ...(await trialIn(directory)) })),
  );
}

async function jobsIn(directory: string): Promise<readonly string[]> {
  const names = await namesIn(directory);
  if (names.some((name) => TASK_DIRECTORY.test(name))) return [directory];
  const inside = await Promise.all(
    names.map(async (name) => {
      const path = join(directory, name);
      const isDirectory = (await stat(path).catch(() => undefined))?.isDirectory() === true;
      if (!isDirectory) return [];
      return (await namesIn(path).catch(() => [])).some((one) => TASK_DIRECTORY.test(one)) ? [path] : [];
    }),
  );
  const jobs = inside.flat().sort((a, b) => a.localeCompare(b, 'en', { numeric: true }));
  return jobs.length > 0 ? jobs : [directory];
}

/** The last part of each path; more of it where that is not unlike those of others. */
function namesOf(directories: readonly string[]): readonly string[] {
  const last = directories.map((directory) => basename(directory));
  if (new Set(last).size === last.length) return last;
  const parts = directories.map((directory) => directory.split(sep));
  let shared = 0;
  while (parts.every((path) => path[shared] === parts[0]![shared])) shared += 1;
  const common = parts[0]!.slice(0, shared).join(sep) || sep;
  return directories.map((directory) => relative(common, directory));
}

/** A trial of a sweep has its parameters in a file. */
async function trialIn(directory: string): Promise<{ readonly params: string; readonly state: string }> {
  try {
    const { params, state } = JSON.parse(await readFile(join(directory, 'trial.json'), 'utf8')) as Record<
      string,
      unknown
    >;
    const pairs = Object.entries((params ?? {}) as object).map(([name, value]) => `${name} ${String(value)}`);
    return { params: pairs.join(', '), state: typeof state === 'string' ? state : '' };
  } catch {
    return { params: '', state: '' };
  }
}
