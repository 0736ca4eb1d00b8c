/** The dashboard for Grafana against a real Prometheus that scrapes a cluster which trains, saves and recovers. */
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { readClusterFile } from '../../src/app/job/launcher/cluster-file.js';
import { choosePorts } from '../../src/app/job/launcher/ports.js';
import { ROOT } from '../setup/run-setup.js';
import { type ShoalProcess, startShoal } from './shoal-process.js';

vi.setConfig({ testTimeout: 400_000 });

const JOB = `
  import { defineJob, tf } from 'shoal';
  export default defineJob({
    name: 'watched',
    input: () => tf.data.textLines('lines.txt').repeat().batch(2).map((line) => ({ line })),
    model({ input }) {
      const w = tf.variable('w', { shape: [1000], initializer: tf.zerosInitializer() });
      const x = tf.raw.stringToNumber(input.line).mean();
      return { loss: w.sub(x).square().mean(), optimizer: tf.train.sgd(0.5) };
    },
    train: { lastStep: 1e9, input: 'shards', checkpoint: { everySecs: 1 } },
  });`;

interface Target {
  readonly expr: string;
}

interface Dashboard {
  readonly panels: readonly {
    readonly title: string;
    readonly type: string;
    readonly targets?: readonly Target[];
  }[];
}

interface Sample {
  readonly metric: Readonly<Record<string, string>>;
  readonly value: readonly [number, string];
}

/** Of its sources only the list of targets and the results of queries are read. */
interface Answer {
  readonly status: string;
  readonly error?: string;
  readonly data: {
    readonly result: readonly Sample[];
    readonly activeTargets: readonly { readonly health: string }[];
  };
}

let scratch: string;
let launcher: ShoalProcess | undefined;
let prometheus: ChildProcess | undefined;
let said = '';

beforeEach(() => {
  scratch = mkdtempSync(join(tmpdir(), 'shoal-dashboard-'));
  writeFileSync(join(scratch, 'job.ts'), JOB);
  writeFileSync(join(scratch, 'lines.txt'), Array.from({ length: 40 }, (_, i) => `${i}\n`).join(''));
});

afterEach(async () => {
  if (prometheus && prometheus.exitCode === null) {
    const ended = new Promise((done) => prometheus!.once('close', done));
    prometheus.kill('SIGKILL');
    await ended;
  }
  launcher?.child.kill('SIGKILL');
  await launcher?.ended;
  rmSync(scratch, { recursive: true, force: true });
});

async function until<T>(what: string, find: () => T | undefined | Promise<T | undefined>): Promise<T> {
  for (const end = Date.now() + 120_000; ; ) {
    const found = await find();
    if (found !== undefined) return found;
    const { output, child } = launcher!;
    if (Date.now() > end || child.exitCode !== null)
      throw new Error(`${what}:\n${output.stdout}${output.stderr}${said}`);
    await new Promise((tick) => setTimeout(tick, 200));
  }
}

/** What Prometheus scrapes: a task that was started again has another port. */
function writeTargets(agents: readonly string[]): void {
  writeFileSync(join(scratch, 'targets.json.new'), JSON.stringify([{ targets: agents }]));
  renameSync(join(scratch, 'targets.json.new'), join(scratch, 'targets.json'));
}

/** Starts Prometheus; returns how to query it. */
async function scrape(agents: readonly string[], token: string) {
  const binary = process.env.SHOAL_PROMETHEUS ?? '/usr/bin/prometheus';
  if (!existsSync(binary)) throw new Error(`there is no ${binary}: install Debian's package prometheus`);
  const [port] = await choosePorts('127.0.0.1', 1);
  writeFileSync(join(scratch, 'token'), token, { mode: 0o600 });
  writeTargets(agents);
  writeFileSync(
    join(scratch, 'prometheus.yml'),
    `global: { scrape_interval: 3s, scrape_timeout: 3s }
scrape_configs:
  - job_name: shoal
    file_sd_configs: [{ files: [${join(scratch, 'targets.json')}], refresh_interval: 1s }]
    authorization: { credentials_file: ${join(scratch, 'token')} }
`,
  );
  const flags = [
    `--config.file=${join(scratch, 'prometheus.yml')}`,
    `--storage.tsdb.path=${join(scratch, 'data')}`,
    `--web.listen-address=127.0.0.1:${port}`,
  ];
  prometheus = spawn(binary, flags, { stdio: ['ignore', 'ignore', 'pipe'] });
  prometheus.stderr!.setEncoding('utf8').on('data', (text: string) => {
    said += text;
  });
  return async (path: string, query?: string): Promise<Answer> => {
    const url = new URL(`http://127.0.0.1:${port}/api/v1/${path}`);
    if (query !== undefined) url.searchParams.set('query', query);
    return (await (await fetch(url, { signal: AbortSignal.timeout(20_000) })).json()) as Answer;
  };
}

/** The results of the queries by panel, and those without any. */
async function evaluated(panels: Dashboard['panels'], ask: Awaited<ReturnType<typeof scrape>>) {
  const values = new Map<string, readonly Sample[]>();
  const empty: string[] = [];
  for (const { title, targets = [] } of panels) {
    for (const { expr } of targets) {
      const query = expr
        .replaceAll('$__rate_interval', '2m')
        .replaceAll('$__range', '5m')
        .replaceAll('$cluster', 'watched')
        .replaceAll('$task', '.*');
      expect(query).not.toContain('$');
      const { status, error, data } = await ask('query', query);
      expect(error, `${title}: ${query}`).toBeUndefined();
      expect(status).toBe('success');
      if (data.result.length === 0) empty.push(`${title}: ${query}`);
      values.set(title, [...(values.get(title) ?? []), ...data.result]);
    }
  }
  return { values, empty };
}

test('every query of the dashboard has data', async () => {
  launcher = startShoal(['run', 'job.ts', '--ps', '1', '--workers', '1'], { cwd: scratch });
  const { output } = launcher;
  const { agents, token } = await until('the cluster runs', () => {
    const file = readClusterFile(join(scratch, '.shoal/watched'));
    return file?.agents.length === 2 && /saved model/.test(output.stdout) ? file : undefined;
  });
  const ask = await scrape(agents, token);
  await until('Prometheus scrapes both tasks', async () => {
    const answer = await ask('targets').catch(() => undefined);
    const up = answer?.data.activeTargets.filter(({ health }) => health === 'up');
    return up?.length === 2 ? true : undefined;
  });
  // Some metrics have values after a recovery only.
  const pid = Number([...output.stdout.matchAll(/ps 0 is process (\d+)/g)].at(-1)![1]);
  process.kill(pid, 'SIGKILL');
  await until('a recovery', async () => {
    writeTargets(readClusterFile(join(scratch, '.shoal/watched'))!.agents);
    const { data } = await ask('query', 'sum(increase(shoal_recoveries_total[5m])) > 0');
    return data.result.length > 0 ? true : undefined;
  });
  const saves = 'sum(rate(shoal_saves_total[30s])) > 0';
  await until('a save after it', async () =>
    (await ask('query', saves)).data.result.length > 0 ? true : undefined,
  );

  const text = readFileSync(join(ROOT, 'docs/grafana-dashboard.json'), 'utf8');
  const { panels } = JSON.parse(text) as Dashboard;
  // A scrape that failed, as of the ps that was killed, makes the series of a task end.
  const bothUp = async () => (await ask('query', 'sum(up) == 2 and count(up) == 2')).data.result.length > 0;
  const { values, empty } = await until('the values of both tasks', async () => {
    const isUp = await bothUp();
    const found = await evaluated(panels, ask);
    return isUp && (await bothUp()) ? found : undefined;
  });
  expect(empty).toEqual([]);
  expect(values.size).toBeGreaterThan(20);
  const of = (title: string, labels: Record<string, string> = {}) =>
    values
      .get(title)!
      .filter(({ metric }) => Object.entries(labels).every(([name, label]) => metric[name] === label))
      .map(({ value }) => Number(value[1]));
  const [worker, ps] = ['/job:worker/task:0', '/job:ps/task:0'];
  expect(of('Steps per second', { task: worker! })[0]).toBeGreaterThan(0);
  expect(of('Time of a step', { task: worker! })[0]).toBeGreaterThan(0);
  expect(of('Global step')[0]).toBeGreaterThan(0);
  expect(of('Tasks', { status: 'alive' })).toEqual([2]);
  expect(of('Recoveries', { task: worker!, mode: 'exact' })[0]).toBeGreaterThan(0);
  expect(of('Memory', { task: ps! })[0]).toBeGreaterThan(10e6);
  expect(of('Engines', { task: ps!, engine: 'direct' })).toEqual([1]);
  // Milliseconds, as Grafana shows times.
  expect(Math.abs(of('Processes since', { task: worker! })[0]! - Date.now())).toBeLessThan(3600e3);
});
