/** Runs the programs of the guide, in the order in which a reader runs them, and its scripts that start tasks. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { choosePorts } from '../../src/app/job/launcher/ports.js';
import { resolveConfig } from '../../src/distributed/cluster/spec/config.js';
import { locateTensorFlow } from '../../src/tensorflow/native/library/locate.js';
import { BIN, shoal } from '../cli/shoal-process.js';
import { childEnvironment, ROOT, startNode } from '../setup/run-setup.js';
import { startProcess } from './child-process.js';
import { GUIDE_PROGRAMS } from './executed.js';

const LOADER = pathToFileURL(join(ROOT, 'node_modules/tsx/dist/loader.mjs')).href;
const PROGRAMS = new Set(GUIDE_PROGRAMS.map((path) => basename(path)));
const DEPLOY = join(ROOT, 'examples/deploy');

let scratch: string;
beforeAll(() => {
  scratch = mkdtempSync(join(tmpdir(), 'shoal-guide-'));
});
afterAll(() => {
  rmSync(scratch, { recursive: true, force: true });
  expect([...PROGRAMS], 'programs that no test has run').toEqual([]);
});

function program(name: string): string {
  PROGRAMS.delete(name);
  return join(ROOT, 'examples/guide', name);
}

/** Runs a program of the guide; returns what it prints. */
async function node(name: string): Promise<string> {
  const env = { SHOAL_TF_DIR: locateTensorFlow().dir, TSX_TSCONFIG_PATH: join(ROOT, 'tsconfig.json') };
  const run = startNode(['--import', LOADER, program(name)], env, { cwd: scratch });
  const { code, stdout, stderr } = await run.ended;
  expect(code, stderr).toBe(0);
  return stdout;
}

/** Runs a command that must succeed; returns what it prints. */
async function command(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await shoal(args, { cwd: scratch });
  expect(code, stdout + stderr).toBe(0);
  return stdout;
}

test('the model in one process trains', async () => {
  const losses = (await node('model.ts')).trim().split('\n').map(Number);
  expect(losses).toHaveLength(10);
  expect(losses.at(-1)).toBeLessThan(0.01 * (losses[0] as number));
});

test('a program tries several values of a parameter', async () => {
  expect(await node('tune.ts')).toMatch(/best rate: 0\.1$/m);
});

test('words are looked up in a vocabulary, and two optimizers train', async () => {
  expect(await node('features.ts')).toMatch(/^loss 0\.0\d+ after step 200$/m);
  expect(await node('columns.ts')).toMatch(
    /^loss 0\.\d+$[\s\S]*input_layer\/color_embedding\/embedding_weights \[4,4\]/m,
  );
});

test('the layers train, predict and are saved', async () => {
  expect(await node('keras.ts')).toMatch(/accuracy: (1|0\.9).*Tensor\(float32 \[1, 1\]\)/s);
  expect(await command('saved-model', 'show', 'export/sign')).toContain('serving_default');
});

test('the job trains, its checkpoint is exported, and the export predicts', async () => {
  const job = program('job.ts');
  expect(await command('run', job, '--last-step', '300')).toMatch(/done at step 300/);
  await command('export', job, '--out', 'export/1');
  expect(await command('predict', 'export/1', '--input', '{"x": [0, 0.5, 1]}')).toMatch(/y/);
  expect(await node('predict.ts')).toMatch(/^Tensor\(float32 \[3\]\)/);
});

test('the job with options takes a parameter, saves, evaluates and exports', async () => {
  const args = ['--ps', '1', '--workers', '1', '--last-step', '50', '--set', 'rate=0.5'];
  const output = await command('run', program('options.ts'), ...args);
  expect(output).toMatch(/step 50 is in .*model\.ckpt-50/);
  expect(output).toMatch(/evaluation of checkpoints\/model\.ckpt-50: error = /);
  expect(output).toMatch(/new best error/);
});

test('the workers share the records of files', async () => {
  await node('write-records.ts');
  const output = await command('run', program('records.ts'), '--ps', '1', '--workers', '2');
  const line = readFileSync(join(ROOT, 'docs/guide/data.md'), 'utf8').match(/^input: .*$/m)?.[0];
  expect(output).toContain(line);
  expect(output).toMatch(/the input ended at step 80/);
});

test('an error has the code that the program expects', async () => {
  expect(await node('errors.ts')).toMatch(/^SHOAL_NOT_FOUND: /);
});

test('ssh.sh runs a job on the hosts of its lists', async () => {
  const project = join(scratch, 'ssh');
  mkdirSync(project);
  writeFileSync(join(project, 'job.ts'), readFileSync(program('job.ts'), 'utf8').replace('5_000', '50'));
  writeFileSync(join(project, 'token'), 'a-token-for-this-test\n', { mode: 0o600 });
  const [ps, worker] = await choosePorts('127.0.0.1', 2);
  const { code, output } = await startProcess('bash', [join(DEPLOY, 'ssh.sh')], {
    cwd: scratch,
    env: childEnvironment({
      SHOAL_TF_DIR: locateTensorFlow().dir,
      TSX_TSCONFIG_PATH: join(ROOT, 'tsconfig.json'),
      PS: `127.0.0.1:${ps}`,
      WORKERS: `127.0.0.1:${worker}`,
      SSH: `bash ${localSsh()}`,
      SHOAL: `${process.execPath} ${BIN}`,
      PROJECT: project,
    }),
  }).ended;
  expect(code, output()).toBe(0);
  expect(output()).toMatch(/done at step 50/);
  expect(output()).toMatch(/all workers have left; done/);
});

/** A stand-in for ssh that runs the command on this machine. */
function localSsh(): string {
  const path = join(scratch, 'local-ssh');
  writeFileSync(path, 'shift\nexec bash -c "$*"\n');
  return path;
}

test.each([
  [0, '/job:ps/task:0', '10.1.0.1:2222'],
  [1, '/job:ps/task:1', '10.1.0.2:2222'],
  [2, '/job:worker/task:0', '10.1.0.3:2222'],
  [4, '/job:worker/task:2', '10.1.0.5:2222'],
])('slurm-task.sh makes process %i the task %s', async (rank, task, address) => {
  const bin = join(scratch, `slurm-${rank}`);
  mkdirSync(bin);
  const hosts = [1, 2, 3, 4, 5].map((host) => `10.1.0.${host}`).join('\\n');
  writeFileSync(join(bin, 'scontrol'), `#!/bin/sh\nprintf '${hosts}\\n'\n`, { mode: 0o755 });
  const { code, output } = await startProcess('bash', [join(DEPLOY, 'slurm-task.sh')], {
    cwd: scratch,
    env: {
      ...childEnvironment({}),
      PATH: `${bin}:${process.env.PATH}`,
      SLURM_JOB_NODELIST: 'nodes',
      SLURM_PROCID: String(rank),
      PS_COUNT: '2',
      SHOAL: 'eval printenv TF_CONFIG #',
    },
  }).ended;
  expect(code, output()).toBe(0);
  const config = resolveConfig({ env: { TF_CONFIG: output() } });
  expect(config).toMatchObject({ mode: 'cluster', task });
  if (config.mode === 'cluster') expect(config.spec.addressOf(config.task)).toBe(address);
});

test('each job of kubernetes.yaml has a valid TF_CONFIG', () => {
  const text = readFileSync(join(DEPLOY, 'kubernetes.yaml'), 'utf8');
  const found = [...text.matchAll(/value: >-\n((?: {16}.*\n)+)/g)].map(([, value = '']) =>
    resolveConfig({ env: { TF_CONFIG: value.replaceAll('$(INDEX)', '1') } }),
  );
  expect(found.map((config) => config.mode === 'cluster' && config.task)).toEqual([
    '/job:ps/task:1',
    '/job:worker/task:1',
  ]);
});

test('the unit of systemd and the configuration file describe a task', async () => {
  const unit = readFileSync(join(DEPLOY, 'shoal-task@.service'), 'utf8');
  const flags = /shoal task job\.ts (.*)$/m.exec(unit)?.[1]?.split(' ') as string[];
  const config = flags
    .filter((flag) => !flag.startsWith('--dir='))
    .map((flag) =>
      flag
        .replace('/etc/shoal/cluster.json', join(DEPLOY, 'cluster.json'))
        .replaceAll('$' + '{JOB_NAME}', 'worker')
        .replaceAll('$' + '{TASK_INDEX}', '1'),
    );
  const found = JSON.parse(await command('config', ...config, '--json'));
  expect(found).toMatchObject({ task: { value: '/job:worker/task:1' }, cluster_name: { value: 'line' } });
});
