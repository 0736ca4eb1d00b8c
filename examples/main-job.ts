/**
 * The demo of `npm start`: a cluster on this machine, each task a process with its own directory, fits a line to points
 * and saves checkpoints. During training one ps is killed and its directory wiped. It is restarted at another address,
 * all ps restore the last checkpoint, no other task restarts, and training continues. At the end the chief exports the
 * model from the ps to its own directory, and a server answers an HTTP request with it.
 *
 *   npm start [-- --ps 2 --workers 3 --steps 3000 --keep]
 */
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const SHOAL = fileURLToPath(new URL('../bin/shoal.cjs', import.meta.url));
const HERE = dirname(fileURLToPath(import.meta.url));
const USAGE = `npm start [-- flags]

Trains on a local cluster with checkpoints, kills a ps during training, exports the model and serves it over HTTP.

  --ps N        parameter servers (default: 2)
  --workers N   workers (default: 3)
  --steps N     training steps (default: 3000)
  --keep        keep the directories of the tasks`;

interface Options {
  readonly ps: number;
  readonly workers: number;
  readonly steps: number;
  readonly keep: boolean;
}

/** What happened, as far as the log of the cluster shows it. */
interface Outcome {
  readonly exitCode: number;
  /** When the ps was killed, in milliseconds. */
  killedAt?: number;
  /** The step of the checkpoint that was restored, and the steps since. */
  restored?: { readonly step: number; readonly repeated: number };
  recoveryMs?: number;
  exported?: string;
}

/** The options of the command line; a wrong one ends the process with exit code 2. */
function readOptions(): Options {
  try {
    return parseOptions();
  } catch (error) {
    console.error(`${error instanceof Error ? error.message : error}\n\n${USAGE}`);
    process.exit(2);
  }
}

function parseOptions(): Options {
  const text = { type: 'string' } as const;
  const { values } = parseArgs({
    options: {
      ps: { ...text, default: '2' },
      workers: { ...text, default: '3' },
      steps: { ...text, default: '3000' },
      keep: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) {
    console.log(USAGE);
    process.exit(0);
  }
  const count = (name: 'ps' | 'workers' | 'steps') => {
    const value = Number(values[name]);
    if (Number.isSafeInteger(value) && value > 0) return value;
    throw new Error(`--${name} must be a positive integer; it is ${values[name]}`);
  };
  return { ps: count('ps'), workers: count('workers'), steps: count('steps'), keep: values.keep };
}

const heading = (text: string) => console.log(`\n── ${text}\n`);

/** Trains, kills the last ps after the first checkpoint, and prints all log lines. */
async function train(tasks: string, { ps, workers, steps }: Options): Promise<Outcome> {
  const cluster = spawn(
    process.execPath,
    [
      ...[SHOAL, 'run', join(HERE, 'linear-regression/job.ts')],
      ...['--ps', String(ps), '--workers', String(workers), '--dir', tasks, '--wipe'],
      // Lines of level info are read below, whatever SHOAL_LOG_LEVEL is.
      ...['--log-level', 'info'],
      ...['--', '--steps', String(steps), '--rate', '0.1', '--save-secs', '2'],
    ],
    { stdio: ['ignore', 'pipe', 'pipe'] },
  );
  cluster.stderr.pipe(process.stderr);
  // The terminal sends Ctrl-C to the cluster as well; a signal to this process alone is forwarded.
  process.on('SIGINT', () => {});
  process.on('SIGTERM', () => cluster.kill('SIGTERM'));
  const victim = `ps ${ps - 1}`;
  const outcome: Omit<Outcome, 'exitCode'> = {};
  let pid: number | undefined;
  let savedSteps = 0;
  const ended = new Promise<number>((resolve) => {
    cluster.once('exit', (status, signal) => resolve(status ?? (signal === null ? 1 : 130)));
  });
  for await (const line of createInterface({ input: cluster.stdout })) {
    console.log(line);
    const started = new RegExp(`│ ${victim} is process (\\d+)`).exec(line);
    if (started) pid = Number(started[1]);
    savedSteps = Number(/saved model\.ckpt-(\d+)/.exec(line)?.[1] ?? savedSteps);
    const step = Number(/step (\d+) of \d+/.exec(line)?.[1] ?? 0);
    // The first checkpoint is of the first steps: the second one shows that steps are saved.
    if (!outcome.killedAt && pid !== undefined && savedSteps > steps / 10 && step > 0) {
      outcome.killedAt = performance.now();
      heading(`kill -9 ${pid}: ${victim} dies and loses its directory; it restarts with an empty one`);
      process.kill(pid, 'SIGKILL');
      rmSync(join(tasks, victim.replace(' ', '-')), { recursive: true, force: true });
    }
    const restored = /restored model\.ckpt-(\d+) .*; (\d+) steps are repeated/.exec(line);
    if (restored) outcome.restored = { step: Number(restored[1]), repeated: Number(restored[2]) };
    if (outcome.killedAt && outcome.recoveryMs === undefined && /the cluster is complete again/.test(line))
      outcome.recoveryMs = performance.now() - outcome.killedAt;
    outcome.exported = /exported step \d+ to (.*) in [\d.]+ s$/.exec(line)?.[1] ?? outcome.exported;
  }
  return { ...outcome, exitCode: await ended };
}

/** Runs a command of the command line and returns what it prints as JSON. */
function ask<T>(...args: readonly string[]): T {
  const { status, stdout } = spawnSync(process.execPath, [SHOAL, ...args, '--json'], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  if (status !== 0) throw new Error(`shoal ${args.join(' ')} exited with ${status}`);
  return JSON.parse(stdout) as T;
}

interface Checkpoint {
  readonly name: string;
  readonly shards: number;
  readonly copies: number;
  readonly health: string;
  readonly places: readonly { readonly place: string }[];
}

/** Serves the directory of an export, and asks it over HTTP as a client of TensorFlow Serving does. */
async function predictOverHttp(exported: string, x: readonly number[]): Promise<readonly number[]> {
  // Loaded here: it loads TensorFlow, which a mistake on the command line need not wait for.
  const { serve } = await import('shoal/serving');
  const serving = await serve({
    models: { line: dirname(exported) },
    restPort: 0,
    grpcPort: false,
    log: (line, level) => (level === 'warn' || level === 'error') && console.error(line),
  });
  try {
    const response = await fetch(`http://127.0.0.1:${serving.restPort}/v1/models/line:predict`, {
      method: 'POST',
      body: JSON.stringify({ inputs: { x } }),
    });
    if (!response.ok) throw new Error(`the server answered ${response.status}: ${await response.text()}`);
    const { outputs } = (await response.json()) as { outputs: readonly number[] };
    return outputs;
  } finally {
    await serving.close();
  }
}

async function summarize(tasks: string, outcome: Outcome, keep: boolean): Promise<void> {
  const { restored, recoveryMs, exported } = outcome;
  if (exported === undefined) throw new Error('the cluster ended without an export');
  const [newest] = ask<readonly Checkpoint[]>('checkpoint', 'ls', '--dir', tasks);
  if (!newest) throw new Error('the cluster ended without a checkpoint');
  const x = [0, 0.5, 1];
  const y = await predictOverHttp(exported, x);
  const rows: (readonly [string, string])[] = [];
  if (recoveryMs !== undefined && restored) {
    const { step, repeated } = restored;
    rows.push(
      ['recovery', `${(recoveryMs / 1000).toFixed(1)} s after the kill, training continued`],
      ['lost steps', `${repeated}: from step ${step + repeated} back to checkpoint ${step}`],
    );
  } else rows.push(['recovery', 'training ended before a ps was killed; try more --steps']);
  const places = newest.places.map(({ place }) => place).join(', ');
  rows.push(
    [
      'checkpoint',
      `${newest.name}, ${newest.health}: ${newest.shards} shard${newest.shards === 1 ? '' : 's'}, ${newest.copies} copies of each`,
    ],
    ['stored on', `${places}; each has its own directory`],
    ['export', `${exported}${keep ? '' : ' (removed now; --keep keeps it)'}`],
    ...x.map((value, i): readonly [string, string] => [
      i === 0 ? 'over HTTP' : '',
      `y(${value.toFixed(1)}) = ${y[i]?.toFixed(4)}; the points were on ${(0.1 * value + 0.3).toFixed(4)}`,
    ]),
  );
  heading('summary');
  for (const [title, text] of rows) console.log(`   ${title.padEnd(12)}${text}`);
  console.log('\n   next: npm run quickstart (digits in one process), npm test, npm run shoal -- --help\n');
}

const options = readOptions();
const directory = mkdtempSync(join(tmpdir(), 'shoal-start-'));
const tasks = join(directory, 'tasks');
let exitCode = 1;
try {
  const { ps, workers, keep } = options;
  heading(`training on ${ps} ps and ${workers} workers, each with its own directory in ${tasks}`);
  const outcome = await train(tasks, options);
  ({ exitCode } = outcome);
  if (exitCode === 0) await summarize(tasks, outcome, keep);
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  exitCode = 1;
} finally {
  if (options.keep) console.log(`   the directories of the tasks are in ${directory}`);
  else rmSync(directory, { recursive: true, force: true });
}
process.exit(exitCode);
