/** The metrics of the agents of a real job: complete, valid, and changed by steps, leases and saves. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { readClusterFile } from '../../src/app/job/launcher/cluster-file.js';
import { AgentClient } from '../../src/distributed/cluster/agent/agent-client.js';
import { tokenSecurity } from '../../src/distributed/cluster/spec/security.js';
import { type Family, parseMetrics } from '../prometheus.js';
import { type ShoalProcess, startShoal } from './shoal-process.js';

vi.setConfig({ testTimeout: 240_000 });

const JOB = `
  import { defineJob, tf } from 'shoal';
  export default defineJob({
    name: 'measured',
    input: () => tf.data.textLines('lines.txt').repeat().batch(2).map((line) => ({ line })),
    model({ input }) {
      const w = tf.variable('w', { shape: [1000], initializer: tf.zerosInitializer() });
      const x = tf.raw.stringToNumber(input.line).mean();
      return { loss: w.sub(x).square().mean(), optimizer: tf.train.sgd(0.5) };
    },
    train: { lastStep: 1e9, input: 'shards', checkpoint: { everySecs: 1 } },
  });`;

let scratch: string;
let launcher: ShoalProcess | undefined;

beforeEach(() => {
  scratch = mkdtempSync(join(tmpdir(), 'shoal-metrics-'));
  writeFileSync(join(scratch, 'job.ts'), JOB);
  writeFileSync(join(scratch, 'lines.txt'), Array.from({ length: 40 }, (_, i) => `${i}\n`).join(''));
});

afterEach(async () => {
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
      throw new Error(`${what}:\n${output.stdout}${output.stderr}`);
    await new Promise((tick) => setTimeout(tick, 100));
  }
}

const value = (families: ReadonlyMap<string, Family>, sample: string): number => {
  const found = families.get(sample.replace(/\{.*|_(sum|count)$/g, ''))?.samples.get(sample);
  if (found === undefined) throw new Error(`no ${sample}`);
  return found;
};

test('steps, saves, leases and traffic are counted', async () => {
  const run = startShoal(['run', 'job.ts', '--ps', '1', '--workers', '1'], {
    cwd: scratch,
  });
  launcher = run;
  const dir = join(scratch, '.shoal/measured');
  const { agents, token } = await until('the cluster runs', () => {
    const file = readClusterFile(dir);
    return file && file.agents.length === 2 ? file : undefined;
  });
  const security = tokenSecurity(token);
  const [chief, ps] = agents.map((address) => {
    const client = new AgentClient({ address, security });
    return async () => parseMetrics(await client.metrics());
  });
  const before = await until('a first save', async () => {
    const families = await chief!().catch(() => undefined);
    return families && value(families, 'shoal_saves_total') > 0 ? families : undefined;
  });
  const after = await until('a second save', async () => {
    const families = await chief!();
    return value(families, 'shoal_saves_total') > value(before, 'shoal_saves_total') ? families : undefined;
  });
  for (const name of [
    'shoal_steps_total',
    'shoal_step_seconds_count',
    'shoal_step_seconds_sum',
    'shoal_save_seconds_count',
    'shoal_save_seconds_sum',
    'shoal_saved_bytes_total',
    'shoal_leases_completed_total',
    'shoal_leased_records_total',
    'shoal_agent_received_bytes_total',
    'shoal_agent_sent_bytes_total',
    'shoal_global_step',
    'process_cpu_seconds_total',
  ])
    expect(value(after, name), name).toBeGreaterThan(value(before, name));
  expect(value(after, 'shoal_steps_total')).toBe(value(after, 'shoal_step_seconds_count'));
  expect(value(after, 'shoal_leases_held')).toBeGreaterThan(0);
  expect(value(after, 'shoal_failed_saves_total')).toBe(0);
  expect(value(after, 'shoal_recoveries_total{mode="exact"}')).toBe(0);
  expect(value(after, 'shoal_restarts_total')).toBe(0);
  expect(value(after, 'shoal_members{status="alive"}')).toBe(2);
  expect(value(after, 'shoal_engine_info{engine="direct"}')).toBe(1);
  expect(value(after, 'shoal_task_info{cluster="measured",task="/job:worker/task:0"}')).toBe(1);
  expect([...after.get('shoal_build_info')!.samples.keys()][0]).toMatch(/version="\d+\.\d+\.\d+",node="v\d+/);
  expect(value(after, 'process_resident_memory_bytes')).toBeGreaterThan(10e6);

  const shards = await ps!();
  expect(value(shards, 'shoal_shard_bytes_total')).toBeGreaterThanOrEqual(2 * 4000);
  // The gradients of each step pass through the agent of the ps.
  expect(value(shards, 'shoal_agent_received_bytes_total')).toBeGreaterThan(
    value(before, 'shoal_steps_total') * 4000,
  );
  expect(value(shards, 'shoal_global_step')).toBeGreaterThan(0);
  expect(value(shards, 'shoal_steps_total')).toBe(0);

  const refused = await fetch(`http://${agents[0]}/metrics`);
  expect(refused.status).toBe(401);
  const accepted = await fetch(`http://${agents[0]}/metrics`, {
    headers: { authorization: `Bearer ${token}` },
  });
  expect(accepted.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
  parseMetrics(await accepted.text());

  run.child.kill('SIGINT');
  expect(await run.ended).toBe(130);
});
