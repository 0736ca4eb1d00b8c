/** Measures a job on a cluster that `shoal run` starts: the rate that its log shows, of the steps of all workers. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { environmentOf, ROOT } from '../harness.js';

export interface JobRun {
  readonly ps: number;
  readonly workers: number;
  /** The settings of `bench/programs/job.mjs`. */
  readonly settings: Readonly<Record<string, unknown>>;
  /** From the first progress line of the chief until the measurement. */
  readonly warm: number;
  /** At least; a progress line ends it. */
  readonly seconds: number;
}

interface Sample {
  readonly at: number;
  readonly step: number;
}

const TIMEOUT_MS = 300_000;
/** How many of its last lines the error about a job shows. */
const SHOWN_LINES = 15;

/** Steps per second between two progress lines of the chief, which have the global step. */
export async function runJob({ ps, workers, settings, warm, seconds }: JobRun): Promise<number> {
  const directory = await mkdtemp(join(tmpdir(), 'shoal-bench-'));
  const home = await installedPackage(join(directory, 'package'));
  const args = [`--ps=${ps}`, `--workers=${workers}`, `--dir=${join(directory, 'job')}`, '--json'];
  const child = spawn(
    process.execPath,
    [join(home, 'bin/shoal.cjs'), 'run', join(ROOT, 'bench/programs/job.mjs'), ...args],
    {
      // `bin/shoal.cjs` sets the size of the thread pool.
      env: { ...environmentOf(settings), UV_THREADPOOL_SIZE: undefined },
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  );
  const ended = once(child, 'exit');
  const stop = () => {
    // The first signal stops the job gracefully, the second one at once.
    child.kill('SIGINT');
    child.kill('SIGTERM');
  };
  const timer = setTimeout(stop, TIMEOUT_MS);
  const last: string[] = [];
  const keep = (line: string) => {
    last.push(line);
    if (last.length > SHOWN_LINES) last.shift();
  };
  createInterface({ input: child.stderr }).on('line', keep);
  try {
    const samples: Sample[] = [];
    for await (const line of createInterface({ input: child.stdout })) {
      keep(line);
      const sample = sampleOf(line);
      if (!sample) continue;
      samples.push(sample);
      const start = samples.find(({ at }) => at >= (samples[0] as Sample).at + warm * 1000);
      if (start && sample.at >= start.at + seconds * 1000)
        return ((sample.step - start.step) / (sample.at - start.at)) * 1000;
    }
    throw new Error(`the job ended before it was measured:\n${last.join('\n')}`);
  } finally {
    clearTimeout(timer);
    stop();
    await ended;
    await rm(directory, { recursive: true, force: true });
  }
}

/** The global step of a progress line of the chief. */
function sampleOf(line: string): Sample | undefined {
  const { time, task, message } = JSON.parse(line) as { time: string; task: string; message: string };
  const step = task === 'worker 0' ? /^step (\d+) .* steps\/s/.exec(message)?.[1] : undefined;
  return step === undefined ? undefined : { at: Date.parse(time), step: Number(step) };
}

/** The package as npm installs it: in a checkout `shoal` runs the sources, transpiled when they are loaded. */
export async function installedPackage(directory: string): Promise<string> {
  for (const part of ['package.json', 'tensorflow.lock.json', 'bin', 'dist/bundle', 'dist/page', 'scripts'])
    await cp(join(ROOT, part), join(directory, part), { recursive: true });
  await symlink(join(ROOT, 'node_modules'), join(directory, 'node_modules'));
  return directory;
}
