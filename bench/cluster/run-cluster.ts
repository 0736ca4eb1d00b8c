/** Runs a cluster of either side on this machine: starts it, warms it up, measures its workers, and kills it. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { commandOf, environmentOf, localAddresses, type Side } from '../harness.js';
import { peak } from '../probes/memory.js';

export const ENGINES = ['grpc', 'direct'] as const;
export type Engine = (typeof ENGINES)[number];

export interface ClusterRun {
  readonly side: Side;
  /** The program of each task in `bench/programs`, without its extension. */
  readonly program: string;
  readonly ps: number;
  readonly workers: number;
  /** The engine of Shoal's tasks; default: Shoal's default. */
  readonly engine?: Engine;
  /** The directory of the certificates of Shoal's tasks; default: none, they use no TLS. */
  readonly certs?: string;
  /** The settings of the program. */
  readonly settings: Readonly<Record<string, unknown>>;
}

export interface ClusterRates {
  /** Steps per second, summed over the workers. */
  readonly rate: number;
  /** CPU time of all tasks during the measurement, in milliseconds; undefined on systems other than Linux. */
  readonly cpuMs: number | undefined;
  /** The peak resident size of each task since its start, in MB; undefined on systems other than Linux. */
  readonly psMb: readonly (number | undefined)[];
  readonly workerMb: readonly (number | undefined)[];
}

const TIMEOUT_MS = 300_000;
/** Until all workers make steps. */
export const TURN_START_SECONDS = 0.3;
/** Linux counts CPU time in hundredths of a second. */
const TICK_MS = 10;

/** A cluster that runs until it is disposed of. */
export interface RunningCluster extends AsyncDisposable {
  /** Resolves when all workers have warmed up, or have ended their last turn. */
  readonly warm: () => Promise<void>;
  /** More than once only with the setting `turnStart`. */
  readonly measure: () => Promise<ClusterRates>;
  /** The variables of the model and their devices, and its most important ops, as the chief has built it. */
  readonly model: () => Promise<string>;
}

export async function runCluster(run: ClusterRun): Promise<ClusterRates> {
  await using cluster = await startCluster(run);
  await cluster.warm();
  return await cluster.measure();
}

/**
 * Measures clusters that have the setting `turnStart` one after the other, again and again, and returns the results of
 * each. On a shared machine the speed of a processor changes by a third within a minute; in short turns it changes for
 * all. The results of the first `warmTurns` turns do not count: Node still compiles hot code in these.
 */
async function inTurns(
  clusters: readonly RunningCluster[],
  turns: number,
  warmTurns = 5,
): Promise<ClusterRates[][]> {
  const results: ClusterRates[][] = clusters.map(() => []);
  for (let turn = 0; turn < warmTurns + turns; turn++)
    for (const [at, cluster] of clusters.entries()) {
      const rates = await cluster.measure();
      if (turn >= warmTurns) results[at]?.push(rates);
    }
  return results;
}

/**
 * Measures two clusters in turns, first with one of them started first, then with the other: of two equal clusters, the
 * one that was started last is faster by up to a fifth.
 */
export async function inBothOrders(
  one: ClusterRun,
  other: ClusterRun,
  turns: number,
): Promise<[one: ClusterRates[], other: ClusterRates[]]> {
  const each = Math.ceil(turns / 2);
  const started = async (run: ClusterRun) => {
    const cluster = await startCluster(run);
    await cluster.warm();
    return cluster;
  };
  const inOrder = async (first: ClusterRun, second: ClusterRun) => {
    await using a = await started(first);
    await using b = await started(second);
    return await inTurns([a, b], each);
  };
  const [ones = [], others = []] = await inOrder(one, other);
  const [others2 = [], ones2 = []] = await inOrder(other, one);
  return [
    [...ones, ...ones2],
    [...others, ...others2],
  ];
}

export async function startCluster({
  side,
  program,
  ps,
  workers,
  engine,
  certs,
  settings,
}: ClusterRun): Promise<RunningCluster> {
  const hosts = await localAddresses(ps + workers);
  const flags = [`--ps_hosts=${hosts.slice(0, ps)}`, `--worker_hosts=${hosts.slice(ps)}`];
  const [command, file] = commandOf(side, program);
  const env = {
    ...environmentOf(settings),
    // A user's program does not set it.
    UV_THREADPOOL_SIZE: undefined,
    ...(engine && { SHOAL_ENGINE: engine }),
    ...(certs && { SHOAL_CERTS: certs }),
  };
  const directory = await mkdtemp(join(tmpdir(), 'shoal-bench-'));
  const start = async (job: string, index: number): Promise<ChildProcess> => {
    const args = [file, `--job_name=${job}`, `--task_index=${index}`, ...flags];
    // Python's Saver needs a directory that all tasks share.
    const cwd = join(directory, side === 'python' ? 'shared' : `${job}-${index}`);
    await mkdir(cwd, { recursive: true });
    const child = spawn(command, args, { cwd, env, stdio: ['pipe', 'pipe', 'pipe'] });
    // An unread pipe would fill up and block the program.
    child.stderr?.resume();
    return child;
  };
  const tasks = (job: string, length: number) => Promise.all(Array.from({ length }, (_, i) => start(job, i)));
  const [servers, trainers] = [await tasks('ps', ps), await tasks('worker', workers)];
  const children = [...servers, ...trainers];
  const output = (pattern: RegExp) =>
    Promise.all(trainers.map((child, i) => waitForOutput(child, pattern, `${side} worker ${i}`)));
  const memory = (tasks: readonly ChildProcess[]) => Promise.all(tasks.map(({ pid }) => peak(pid ?? 0)));
  return {
    async model() {
      return (await output(/^model (.*)\n/m))[0] as string;
    },
    async warm() {
      await output(/^(warm)\n/m);
    },
    async measure() {
      const rates = output(/^rate ([\d.]+)\n/m);
      const before = await cpuMs(children);
      for (const { stdin } of trainers) stdin?.write('go\n');
      const rate = (await rates).reduce((sum, one) => sum + Number(one), 0);
      const after = await cpuMs(children);
      return {
        rate,
        cpuMs: before === undefined || after === undefined ? undefined : after - before,
        psMb: await memory(servers),
        workerMb: await memory(trainers),
      };
    },
    async [Symbol.asyncDispose]() {
      for (const child of children) child.kill('SIGKILL');
      await Promise.all(
        children.map(
          (child) => child.exitCode ?? child.signalCode ?? new Promise((done) => child.once('exit', done)),
        ),
      );
      await rm(directory, { recursive: true, force: true });
    },
  };
}

async function cpuMs(tasks: readonly ChildProcess[]): Promise<number | undefined> {
  const each = await Promise.all(
    tasks.map(async ({ pid }) => {
      const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
      // The name of the program, in parentheses, may contain spaces.
      const [user, system] = stat
        .slice(stat.lastIndexOf(')') + 2)
        .split(' ')
        .slice(11, 13);
      return user === undefined ? Number.NaN : (Number(user) + Number(system)) * TICK_MS;
    }),
  );
  const sum = each.reduce((a, b) => a + b, 0);
  return Number.isNaN(sum) ? undefined : sum;
}

/** Resolves to the first capture group of `pattern` once the standard output matches it. */
function waitForOutput(child: ChildProcess, pattern: RegExp, name: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = '';
    let stderr = '';
    const onStderr = (chunk: Buffer) => {
      stderr = (stderr + String(chunk)).slice(-2000);
    };
    const settle = (end: () => void) => {
      clearTimeout(timer);
      child.stdout?.off('data', onStdout);
      child.stderr?.off('data', onStderr);
      child.off('exit', onExit);
      end();
    };
    const onStdout = (chunk: Buffer) => {
      text += String(chunk);
      const match = pattern.exec(text)?.[1];
      if (match !== undefined) settle(() => resolve(match));
    };
    const onExit = (code: number | null) =>
      settle(() => reject(new Error(`${name} exited with ${code}: ${stderr}`)));
    const timer = setTimeout(
      () => settle(() => reject(new Error(`${name} did not print ${pattern} within ${TIMEOUT_MS} ms`))),
      TIMEOUT_MS,
    );
    if (child.exitCode !== null || child.signalCode !== null) return onExit(child.exitCode);
    child.stdout?.on('data', onStdout);
    child.stderr?.on('data', onStderr);
    child.once('exit', onExit);
  });
}
