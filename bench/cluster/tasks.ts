/** A cluster of either side on this machine, started, warmed up, measured over the same seconds, and ended. */
import { type ChildProcess, spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { choosePorts } from '../../src/job/launcher/ports.js';
import { peak } from '../checkpoint/memory.js';
import { oraclePython, ROOT } from '../harness.js';

export type Side = 'shoal' | 'python';

export interface ClusterRun {
  readonly side: Side;
  /** The program of each task in `bench/peers`, without its ending. */
  readonly program: string;
  readonly ps: number;
  readonly workers: number;
  /** What the tasks are told, as JSON in `BENCH`. */
  readonly settings: Readonly<Record<string, unknown>>;
}

export interface ClusterRates {
  /** Steps per second of all workers together. */
  readonly rate: number;
  /** Processor time of all tasks together while they were measured, in milliseconds; Linux alone tells it. */
  readonly cpuMs: number | undefined;
  /** The highest resident size of each task from its start on, in MB. */
  readonly psMb: readonly (number | undefined)[];
  readonly workerMb: readonly (number | undefined)[];
}

const LIMIT_MS = 300_000;
/** Linux counts processor time in hundredths of a second. */
const TICK_MS = 10;

export async function runCluster({
  side,
  program,
  ps,
  workers,
  settings,
}: ClusterRun): Promise<ClusterRates> {
  const hosts = (await choosePorts('127.0.0.1', ps + workers)).map((port) => `127.0.0.1:${port}`);
  const flags = [`--ps_hosts=${hosts.slice(0, ps)}`, `--worker_hosts=${hosts.slice(ps)}`];
  const [command, script] =
    side === 'shoal' ? [process.execPath, `${program}.mjs`] : [oraclePython(), `${program}.py`];
  const env = {
    ...process.env,
    UV_THREADPOOL_SIZE: '16',
    TF_CPP_MIN_LOG_LEVEL: '3',
    BENCH: JSON.stringify(settings),
  };
  const children: ChildProcess[] = [];
  const start = (job: string, index: number): ChildProcess => {
    const args = [join(ROOT, 'bench/peers', script), `--job_name=${job}`, `--task_index=${index}`, ...flags];
    const child = spawn(command, args, { cwd: ROOT, env, stdio: ['pipe', 'pipe', 'pipe'] });
    // What nobody reads would fill the pipe.
    child.stderr?.resume();
    children.push(child);
    return child;
  };
  const servers = Array.from({ length: ps }, (_, i) => start('ps', i));
  try {
    const trainers = Array.from({ length: workers }, (_, i) => start('worker', i));
    const said = (what: RegExp) =>
      Promise.all(trainers.map((child, i) => firstWord(child, what, `${side} worker ${i}`)));
    await said(/^(warm)$/m);
    const rates = said(/^rate ([\d.]+)$/m);
    const before = await cpuMs(children);
    for (const { stdin } of trainers) stdin?.write('go\n');
    const rate = (await rates).reduce((sum, one) => sum + Number(one), 0);
    const after = await cpuMs(children);
    const memory = (tasks: readonly ChildProcess[]) => Promise.all(tasks.map(({ pid }) => peak(pid ?? 0)));
    return {
      rate,
      cpuMs: before === undefined || after === undefined ? undefined : after - before,
      psMb: await memory(servers),
      workerMb: await memory(trainers),
    };
  } finally {
    for (const child of children) child.kill('SIGKILL');
    await Promise.all(
      children.map(
        (child) => child.exitCode ?? child.signalCode ?? new Promise((done) => child.once('exit', done)),
      ),
    );
  }
}

async function cpuMs(tasks: readonly ChildProcess[]): Promise<number | undefined> {
  const each = await Promise.all(
    tasks.map(async ({ pid }) => {
      const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
      // The name of the program, in brackets, may hold blanks.
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

function firstWord(child: ChildProcess, what: RegExp, who: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = '';
    let complaint = '';
    const complain = (chunk: Buffer) => {
      complaint = (complaint + String(chunk)).slice(-2000);
    };
    const settle = (end: () => void) => {
      clearTimeout(timer);
      child.stdout?.off('data', listen);
      child.stderr?.off('data', complain);
      child.off('exit', ended);
      end();
    };
    const listen = (chunk: Buffer) => {
      text += String(chunk);
      const word = what.exec(text)?.[1];
      if (word !== undefined) settle(() => resolve(word));
    };
    const ended = (code: number | null) =>
      settle(() => reject(new Error(`${who} ended with ${code}: ${complaint}`)));
    const timer = setTimeout(
      () => settle(() => reject(new Error(`${who} did not say ${what} within ${LIMIT_MS} ms`))),
      LIMIT_MS,
    );
    child.stdout?.on('data', listen);
    child.stderr?.on('data', complain);
    child.once('exit', ended);
  });
}
