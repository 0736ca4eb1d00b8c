/**
 * Requests to a server of models over gRPC and REST, against what a Python user would write: grpcio, and FastAPI with
 * uvicorn, over `tf.saved_model.load`. One generator of load measures all servers, from prebuilt bytes.
 *
 * Flags: `--rounds=N` and `--seconds=N` of one measurement.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  type Benchmark,
  BenchProcess,
  compare,
  environmentOf,
  median,
  oraclePython,
  ROOT,
} from './harness.js';
import { pythonPackages } from './serving/python-packages.js';
import { type Protocol, ServerProcess } from './serving/server-process.js';

const CASES = [
  { model: 'softmax', rows: 1, label: 'softmax, 1 row' },
  { model: 'softmax', rows: 100, label: 'softmax, 100 rows' },
  { model: 'embedding', rows: 1, label: 'embedding, 1 row' },
] as const;
const GOALS: Readonly<Record<Protocol, number>> = { grpc: 3, rest: 4 };
const PROTOCOLS = ['grpc', 'rest'] as const;
/** Requests in flight. HTTP/1.1 has one on each connection. */
const LOAD = {
  grpc: { connections: 4, inFlight: 4 },
  rest: { connections: 16, inFlight: 1 },
} as const;
/** The length of the first round, as a multiple of the others. */
const WARM_UP = 4;
/** The rate of the open loop, as a part of what Python reached in the closed one. */
const OPEN_PART = 0.5;
const BATCHING = {
  maxBatchSize: 128,
  timeoutMs: 1,
  maxEnqueuedBatches: 100,
  threads: 2,
  allowedSizes: [],
  padsVariableLengths: false,
};
const PATHS: Readonly<Record<Protocol, (model: string) => string>> = {
  grpc: () => '/tensorflow.serving.PredictionService/Predict',
  rest: (model) => `/v1/models/${model}:predict`,
};

interface Measured {
  readonly perSecond: number;
  readonly p50: number;
  readonly p99: number;
  readonly failed: number;
  readonly busy: number;
  readonly count: number;
  /** CPU time of the server per request; unlike the rate, other work on the machine hardly changes it. */
  readonly cpuMs: number | undefined;
}

const ms = (value: number): string => value.toFixed(2);

export const benchmark: Benchmark = {
  name: 'serving',
  about: 'requests per second, latency and memory against servers in Python (grpcio; FastAPI with uvicorn)',
  async run(report, log, flags, show) {
    const rounds = Number(flags.get('rounds') ?? 5);
    const seconds = Number(flags.get('seconds') ?? 2);
    const directory = mkdtempSync(join(tmpdir(), 'shoal-bench-serving-'));
    const packages = pythonPackages();
    makeModels(directory);
    const load = new BenchProcess('shoal', 'serving/load', { name: 'load' });
    const bare = new BenchProcess('shoal', 'serving/run', { name: 'bare', settings: { directory } });
    const servers: ServerProcess[] = [];
    const start = async (...args: Parameters<typeof ServerProcess.start>): Promise<ServerProcess> => {
      const started = await ServerProcess.start(...args);
      servers.push(started);
      return started;
    };
    try {
      const shoal = await start('shoal', 'serving/shoal', { directory });
      const batched = await start('shoal', 'serving/shoal', { directory, batching: BATCHING });
      const python = {
        grpc: await start('python', 'serving/grpc_server', { directory }),
        rest: await start('python', 'serving/rest_server', { directory }, packages),
      };
      const latencies: string[][] = [];
      for (const protocol of PROTOCOLS) {
        for (const { model, rows, label } of CASES) {
          const ask = async (server: ServerProcess, more: object = {}): Promise<Measured> => {
            const file = join(directory, `${model}-${rows}.${protocol}`);
            const path = PATHS[protocol](model);
            const port = server.ports[protocol];
            const request = { protocol, port, path, file, seconds, ...LOAD[protocol], ...more };
            const before = server.cpuMs;
            const found = await load.request<Omit<Measured, 'cpuMs'> & { readonly error?: string }>(request);
            const after = server.cpuMs;
            if (found.error || found.failed > 0)
              throw new Error(`${label}: ${server.name}: ${found.error ?? `${found.failed} failed`}`);
            const isKnown = before !== undefined && after !== undefined;
            return { ...found, cpuMs: isKnown ? (after - before) / found.count : undefined };
          };
          const found = { shoal: [] as Measured[], batched: [] as Measured[], python: [] as Measured[] };
          const runs: number[] = [];
          for (let round = 0; round <= rounds; round++) {
            // The first round warms up: V8 compiles what has run some thousand times.
            const more = round === 0 ? { seconds: WARM_UP * seconds } : {};
            const once = {
              shoal: await ask(shoal, more),
              python: await ask(python[protocol], more),
              batched: await ask(batched, more),
            };
            const request = { model, rows, inFlight: 16, seconds };
            const { value } = await bare.request<{ value: number }>(request);
            if (round === 0) continue;
            runs.push(value);
            for (const side of ['shoal', 'batched', 'python'] as const) found[side].push(once[side]);
          }
          const rates = (side: keyof typeof found) => found[side].map(({ perSecond }) => perSecond);
          const name = `${protocol === 'grpc' ? 'gRPC' : 'REST'}, ${label}`;
          const row = (what: string, side: 'shoal' | 'batched', goal?: number) =>
            compare('serving', what, 'requests/s', 'higher', rates(side), rates('python'), goal);
          report(row(name, 'shoal', GOALS[protocol]));
          report(row(`${name}, batching`, 'batched'));
          report({
            ...compare('serving', `${name}, bare runs`, 'runs/s', 'higher', rates('shoal'), runs),
            baselineName: 'session.run',
          });
          const cpu = (side: keyof typeof found) => found[side].flatMap(({ cpuMs }) => cpuMs ?? []);
          if (cpu('shoal').length === rounds && cpu('python').length === rounds)
            report(compare('serving', `${name}, CPU time`, 'ms', 'lower', cpu('shoal'), cpu('python')));
          const rate = median(rates('python')) * OPEN_PART;
          const open = {
            shoal: await ask(shoal, { rate }),
            batched: await ask(batched, { rate }),
            python: await ask(python[protocol], { rate }),
          };
          for (const side of ['shoal', 'batched', 'python'] as const) {
            const middle = (key: 'p50' | 'p99') => ms(median(found[side].map((one) => one[key])));
            const closed = `${middle('p50')} / ${middle('p99')}`;
            latencies.push([name, side, closed, `${ms(open[side].p50)} / ${ms(open[side].p99)}`]);
          }
          const busy = Math.max(...Object.values(found).flatMap((all) => all.map((one) => one.busy)));
          log(`${name}: the generator used at most ${(busy * 100).toFixed(0)} % of a core`);
        }
      }
      show({
        head: ['latency', 'server', 'closed loop, p50 / p99 in ms', 'open loop at half of Python’s rate'],
        lines: latencies,
      });
      for (const protocol of PROTOCOLS) {
        const ours = shoal.memory;
        const theirs = python[protocol].memory;
        if (ours === undefined || theirs === undefined) continue;
        const other = protocol === 'grpc' ? 'grpcio' : 'FastAPI';
        for (const [what, key] of [
          ['resident memory', 'resident'],
          ['peak memory', 'peak'],
        ] as const)
          report(compare('serving', `${what}, ${other}`, 'MB', 'lower', [ours[key]], [theirs[key]], 2));
      }
    } finally {
      for (const server of servers) await server.stop();
      await Promise.all([load.close(), bare.close()]);
      rmSync(directory, { recursive: true, force: true });
    }
  },
};

function makeModels(directory: string): void {
  const program = join(ROOT, 'bench/programs/serving/models.py');
  const made = spawnSync(oraclePython(), [program, directory], { env: environmentOf(), encoding: 'utf8' });
  if (made.status !== 0) throw new Error(`the models could not be made:\n${made.stderr}`);
}
