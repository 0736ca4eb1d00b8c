/** Between-graph asynchronous training: steps per second of a whole cluster on this machine. */
import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { choosePorts } from '../src/job/launcher/ports.js';
import { type Benchmark, compare, oraclePython, ROOT } from './harness.js';

const ROUNDS = 3;
const WARM_SECONDS = 2;
const SECONDS = 5;
const LIMIT_MS = 180_000;

const MODELS = [
  { id: 'linear', name: "scenario 000's model" },
  { id: 'softmax', name: 'softmax regression, batch 100' },
];
const SHAPES = [
  { ps: 1, workers: 1 },
  { ps: 2, workers: 3 },
];

export const benchmark: Benchmark = {
  name: 'cluster',
  about: 'steps per second of a cluster against between-graph tf.compat.v1 in Python',
  async run(report) {
    for (const { id, name } of MODELS) {
      for (const { ps, workers } of SHAPES) {
        const plain: number[] = [];
        const pipelined: number[] = [];
        const python: number[] = [];
        for (let round = 0; round < ROUNDS; round++) {
          plain.push(await stepsPerSecond('shoal', id, ps, workers, 1));
          python.push(await stepsPerSecond('python', id, ps, workers, 1));
          pipelined.push(await stepsPerSecond('shoal', id, ps, workers, 3));
        }
        const where = `${name}, ${ps} ps + ${workers} workers`;
        report(compare('cluster', where, 'steps/s', 'higher', plain, python, 1));
        report(compare('cluster', `${where}, inflight 3`, 'steps/s', 'higher', pipelined, python, 1.5));
      }
    }
  },
};

/** Starts a cluster, lets it warm up, adds up what its workers made in the same seconds. */
async function stepsPerSecond(
  side: 'shoal' | 'python',
  model: string,
  ps: number,
  workers: number,
  inflight: number,
): Promise<number> {
  const hosts = (await choosePorts('127.0.0.1', ps + workers)).map((port) => `127.0.0.1:${port}`);
  const flags = [`--ps_hosts=${hosts.slice(0, ps)}`, `--worker_hosts=${hosts.slice(ps)}`];
  const [command, script] =
    side === 'shoal' ? [process.execPath, 'cluster.mjs'] : [oraclePython(), 'cluster.py'];
  const env = {
    ...process.env,
    UV_THREADPOOL_SIZE: '16',
    TF_CPP_MIN_LOG_LEVEL: '3',
    BENCH: JSON.stringify({ model, inflight, warm: WARM_SECONDS, seconds: SECONDS }),
  };
  const children: ChildProcess[] = [];
  const start = (job: string, index: number): ChildProcess => {
    const args = [join(ROOT, 'bench/peers', script), `--job_name=${job}`, `--task_index=${index}`, ...flags];
    const child = spawn(command, args, { cwd: ROOT, env, stdio: ['pipe', 'pipe', 'ignore'] });
    children.push(child);
    return child;
  };
  for (let i = 0; i < ps; i++) start('ps', i);
  try {
    const trainers = Array.from({ length: workers }, (_, i) => start('worker', i));
    const said = (what: RegExp) =>
      Promise.all(trainers.map((child, i) => firstWord(child, what, `${side} worker ${i}`)));
    await said(/^(warm)$/m);
    const rates = said(/^rate ([\d.]+)$/m);
    for (const { stdin } of trainers) stdin?.write('go\n');
    return (await rates).reduce((sum, rate) => sum + Number(rate), 0);
  } finally {
    for (const child of children) child.kill('SIGKILL');
    await Promise.all(
      children.map(
        (child) => child.exitCode ?? child.signalCode ?? new Promise((done) => child.once('exit', done)),
      ),
    );
  }
}

function firstWord(child: ChildProcess, what: RegExp, who: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = '';
    const settle = (end: () => void) => {
      clearTimeout(timer);
      child.stdout?.off('data', listen);
      child.off('exit', ended);
      end();
    };
    const listen = (chunk: Buffer) => {
      text += String(chunk);
      const word = what.exec(text)?.[1];
      if (word !== undefined) settle(() => resolve(word));
    };
    const ended = (code: number | null) =>
      settle(() => reject(new Error(`${who} ended with ${code}: ${text.slice(-500)}`)));
    const timer = setTimeout(
      () => settle(() => reject(new Error(`${who} did not say ${what} within ${LIMIT_MS} ms`))),
      LIMIT_MS,
    );
    child.stdout?.on('data', listen);
    child.once('exit', ended);
  });
}
