/** `shoal trace` with real clusters: what the file shows, who may ask, and how a trace ends. */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { readClusterFile } from '../../src/app/job/launcher/cluster-file.js';
import { checkTrace } from '../trace-events.js';
import { type ShoalProcess, shoal, startShoal } from './shoal-process.js';

vi.setConfig({ testTimeout: 300_000 });

const JOB = `
  import { defineJob, tf } from 'shoal';
  export default defineJob({
    name: 'traced',
    input: () => ({ x: tf.constant([1, 2, 3]) }),
    model({ input }) {
      const w = tf.variable('w', { shape: [1000], initializer: tf.zerosInitializer() });
      const b = tf.variable('b', { shape: [10], initializer: tf.zerosInitializer() });
      const loss = w.mean().add(b.mean()).sub(input.x.mean()).square();
      return { loss, optimizer: tf.train.sgd(0.01) };
    },
    train: { lastStep: 1e9, sync: true },
  });`;

let scratch: string;
let launcher: ShoalProcess | undefined;

beforeEach(() => {
  scratch = mkdtempSync(join(tmpdir(), 'shoal-trace-'));
  writeFileSync(join(scratch, 'job.ts'), JOB);
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

const trace = (...args: string[]) => shoal(['trace', ...args], { cwd: scratch });
const read = (file: string) => JSON.parse(readFileSync(join(scratch, file), 'utf8'));

test('shows the steps of the workers, their stages on the ps, waits and transfers', async () => {
  launcher = startShoal(['run', 'job.ts', '--ps', '2', '--workers', '2'], { cwd: scratch });
  const { output } = launcher;
  await until('steps', () => (/worker 1 .* step \d+ of/.test(output.stdout) ? true : undefined));

  const done = await trace('--steps', '5', '--out', 't.json');
  expect(done).toMatchObject({ code: 0, stderr: '' });
  expect(done.stdout).toMatch(
    /^wrote t\.json: 4 tasks, \d+ steps, \d+ calls between tasks with .* of tensors; clocks aligned within/,
  );
  const { slices, arrows } = checkTrace(read('t.json').traceEvents);
  const tasks = [...new Set(slices.map(({ process }) => process.split(' ')[0]!))];
  expect(tasks).toEqual(['/job:ps/task:0', '/job:ps/task:1', '/job:worker/task:0', '/job:worker/task:1']);
  const of = (task: string, row: string) =>
    slices.filter((slice) => slice.process.startsWith(task) && slice.row.startsWith(row));
  for (const worker of ['/job:worker/task:0', '/job:worker/task:1']) {
    expect(of(worker, 'steps').length).toBeGreaterThanOrEqual(5);
    expect(of(worker, 'runs').length).toBeGreaterThanOrEqual(5);
    for (const ps of ['/job:ps/task:0', '/job:ps/task:1'])
      expect(of(worker, `calls to ${ps}`).length, `${worker} ${ps}`).toBeGreaterThanOrEqual(5);
  }
  // The variable is read in every step, and its gradient sent.
  const transfers = slices.filter(({ cat, args }) => cat === 'transfer' && Number(args.bytes) >= 4000);
  expect(transfers.some(({ name }) => name === 'send 4.0 kB')).toBe(true);
  expect(transfers.some(({ name }) => name === 'receive 4.0 kB')).toBe(true);
  expect(transfers.every(({ inside }) => inside?.cat === 'call')).toBe(true);
  expect(slices.some(({ cat, name }) => cat === 'wait' && /^waits for content of/.test(name))).toBe(true);
  expect(arrows.length).toBeGreaterThan(10);
  for (const [call, stage] of arrows) {
    expect(stage.process.startsWith(String(call.args.task))).toBe(true);
    expect(call.process.startsWith(String(stage.args.caller))).toBe(true);
    expect(stage.name).toBe(call.name);
  }

  const { agents } = readClusterFile(join(scratch, '.shoal/traced'))!;
  const ask = { method: 'POST', body: JSON.stringify({ trace: 'trace-one', after: 0, more: true }) };
  expect((await fetch(`http://${agents[0]}/operations/trace`, ask)).status).toBe(401);
  writeFileSync(join(scratch, 'token'), 'x'.repeat(32), { mode: 0o600 });
  const refused = await trace('--agent', agents[0]!, '--cluster-token-file', 'token', '--out', 'no.json');
  expect(refused.code).not.toBe(0);
  expect(refused.stderr).toContain('does not accept the credentials');
  expect(existsSync(join(scratch, 'no.json'))).toBe(false);

  const long = startShoal(['trace', '--steps', '100000', '--out', 'long.json'], { cwd: scratch });
  const second = await until('a second trace is refused', async () => {
    const tried = await trace('--steps', '1', '--out', 'second.json');
    return tried.code === 0 ? undefined : tried.stderr;
  });
  expect(second).toContain('another command traces this task');
  long.child.kill('SIGINT');
  expect(await long.ended).toBe(0);
  expect(long.output.stderr).toMatch(/not every worker had made 100000 steps when the trace was stopped/);
  expect(checkTrace(read('long.json').traceEvents).slices.length).toBeGreaterThan(0);

  const pid = Number([...output.stdout.matchAll(/ps 1 is process (\d+)/g)].at(-1)![1]);
  process.kill(pid, 'SIGSTOP');
  try {
    const partial = await trace('--steps', '5', '--timeout', '4', '--out', 'partial.json');
    expect(partial.stderr).toContain('/job:ps/task:1 is not in the trace, or not until its end');
    expect(partial.code).toBe(0);
    const left = checkTrace(read('partial.json').traceEvents).slices.map(({ process }) => process);
    expect(left.some((process) => process.startsWith('/job:ps/task:1'))).toBe(false);
    expect(Object.keys(read('partial.json').otherData.silent)).toEqual(['/job:ps/task:1']);
  } finally {
    process.kill(pid, 'SIGCONT');
  }
});

test('with engine grpc it says what to use instead', async () => {
  launcher = startShoal(['run', 'job.ts', '--ps', '1', '--workers', '1', '--engine', 'grpc'], {
    cwd: scratch,
  });
  const { output } = launcher;
  await until('steps', () => (/step \d+ of/.test(output.stdout) ? true : undefined));
  const { code, stderr } = await trace();
  expect(code).not.toBe(0);
  expect(stderr).toContain('SHOAL_UNSUPPORTED');
  expect(stderr).toContain('engine grpc has no stages to trace');
  expect(stderr).toContain('ProfilerHook');
});
