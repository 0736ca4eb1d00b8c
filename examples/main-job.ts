/**
 * The demo of `npm start`: a cluster of 2 ps and 3 workers on this machine, each a process with its own directory, fits
 * a line to points and saves checkpoints. During training one ps is killed and its directory wiped. It is restarted at
 * another address, all ps restore the last checkpoint, no other task restarts, and training continues. At the end the
 * chief exports the model from the ps to its own directory, and the export predicts. The last checkpoint is copied from
 * the tasks' directories.
 *
 *   npm start [-- --steps 6000]
 */
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const HERE = dirname(fileURLToPath(import.meta.url));
const { values: options } = parseArgs({
  options: { steps: { type: 'string', default: '6000' }, help: { type: 'boolean', default: false } },
});
if (options.help) {
  console.log(
    'npm start [-- --steps N]\n\nTrains on a local cluster of 2 ps and 3 workers with checkpoints, kills a ps during training,\n' +
      'exports the model and predicts with the export.',
  );
  process.exit(0);
}
const steps = Number(options.steps);
const heading = (text: string) => console.log(`\n── ${text}\n`);

const directory = mkdtempSync(join(tmpdir(), 'shoal-start-'));
const tasks = join(directory, 'tasks');
heading(`training on 2 ps and 3 workers, each with its own directory in ${directory}`);
const cluster = spawn(
  process.execPath,
  [
    join(HERE, '../bin/shoal.cjs'),
    'run',
    join(HERE, 'linear-regression/job.ts'),
    ...['--ps', '2', '--workers', '3', '--dir', tasks, '--wipe'],
    ...['--', '--steps', String(steps), '--rate', '0.1', '--save-secs', '5'],
  ],
  { stdio: ['ignore', 'pipe', 'inherit'] },
);
// The terminal sends Ctrl-C to the cluster as well; a signal to this process alone is forwarded.
process.on('SIGINT', () => {});
process.on('SIGTERM', () => cluster.kill('SIGTERM'));

const pids = new Map<string, number>();
let killed = false;
let saved = 0;
let exported: string | undefined;
for await (const text of createInterface({ input: cluster.stdout })) {
  console.log(text);
  const process_ = /│ (ps \d+|worker \d+).* is process (\d+)/.exec(text);
  if (process_) pids.set(process_[1] as string, Number(process_[2]));
  const step = /step (\d+) of \d+/.exec(text);
  saved += Number(/saved model\.ckpt-\d+/.test(text));
  if (!killed && saved > 0 && step && Number(step[1]) > steps / 4) {
    killed = true;
    const pid = pids.get('ps 1') as number;
    heading(
      `kill -9 ${pid}: ps 1 dies and its directory is wiped; it restarts with an empty directory at another address`,
    );
    process.kill(pid, 'SIGKILL');
    rmSync(join(tasks, 'ps-1'), { recursive: true, force: true });
  }
  exported = /exported step \d+ to (.*) in [\d.]+ s$/.exec(text)?.[1] ?? exported;
}
const code = await new Promise<number>((resolve) => {
  if (cluster.exitCode !== null) resolve(cluster.exitCode);
  cluster.once('exit', (status, signal) => resolve(status ?? (signal === null ? 1 : 130)));
});
const shoal = (...args: readonly string[]) =>
  spawnSync(process.execPath, [join(HERE, '../bin/shoal.cjs'), ...args], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  });
let failed = code;
const show = (...args: readonly string[]): string => {
  const { status, stdout } = shoal(...args);
  process.stdout.write(stdout);
  if (status !== 0) failed = status ?? 1;
  return stdout;
};
if (code === 0) {
  heading('the last checkpoint, copied from the directories of the tasks in TensorFlow’s format');
  show('checkpoint', 'ls', '--dir', tasks);
  show('checkpoint', 'pull', 'latest', join(directory, 'pulled'), '--dir', tasks);
}
if (code === 0 && exported === undefined) {
  console.error('the cluster ended without an export');
  failed = 1;
} else if (code === 0 && exported !== undefined) {
  heading('the export, a SavedModel on the disk of the chief, for TensorFlow Serving');
  show('saved-model', 'show', exported);
  heading('a prediction by the export; the points were on y = 0.1 x + 0.3');
  const x = [0, 0.5, 1];
  const { status, stdout } = shoal('predict', exported, '--input', JSON.stringify({ x }), '--json');
  if (status === 0) {
    const { y } = (JSON.parse(stdout) as { outputs: { y: number[] } }).outputs;
    for (const [i, value] of x.entries()) {
      const [predicted, right] = [y[i]?.toFixed(4), (0.1 * value + 0.3).toFixed(4)];
      console.log(`   x = ${value.toFixed(1)}   predicted ${predicted}   true ${right}`);
    }
    console.log('\n   next: npm run quickstart (digits in one process), npm test, npm run shoal -- --help\n');
  } else failed = status ?? 1;
}
rmSync(directory, { recursive: true, force: true });
process.exit(failed);
