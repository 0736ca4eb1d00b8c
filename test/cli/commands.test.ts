/** The output of the commands for valid and invalid input, without separate processes. */
import { execFileSync } from 'node:child_process';
import { EventEmitter } from 'node:events';
import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { proposeCompletions } from '@stricli/core';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { application } from '../../src/app/cli/application.js';
import { closedOutput, isReaderGone } from '../../src/app/cli/closed-output.js';
import {
  cleanStack,
  describeFailure,
  describeFailureAsJson,
  exitCodeOfFailure,
} from '../../src/app/cli/failure.js';
import { findCluster } from '../../src/app/cli/job/find-cluster.js';
import { runShoal } from '../../src/app/cli/main.js';
import { userFrameOf } from '../../src/app/cli/user-frame.js';
import { writeClusterFile } from '../../src/app/job/launcher/cluster-file.js';
import { ShoalError, TensorFlowError } from '../../src/base/errors/errors.js';
import { EXIT } from '../../src/base/errors/exit-codes.js';
import { refuseOpenHost } from '../../src/distributed/cluster/spec/address-rules.js';
import { described } from '../described.js';
import { context, runCommand } from './run-command.js';

const CHECKPOINT = ['ls', 'inspect', 'verify', 'pull', 'push', 'rm', 'repair'];

let scratch: string;

beforeEach(() => {
  scratch = mkdtempSync(join(tmpdir(), 'shoal-commands-'));
});

afterEach(() => rmSync(scratch, { recursive: true, force: true }));

describe('help', () => {
  test('lists every command except the internal one for shells', async () => {
    const { stdout } = await runCommand('--help');
    for (const name of [
      'init',
      'run',
      'sweep',
      'task',
      'status',
      'checkpoint',
      'saved-model',
      'predict',
      'config',
      'certs',
      'doctor',
      'setup',
      'completion',
    ]) {
      expect(stdout).toMatch(new RegExp(`^ {2}${name} {2,}\\w`, 'm'));
    }
    expect(stdout).not.toMatch(/^ {2}complete {2,}/m);
  });

  test('help COMMAND is COMMAND --help', async () => {
    expect((await runCommand('help')).stdout).toBe((await runCommand('--help')).stdout);
    const { stdout, code } = await runCommand('help', 'checkpoint', 'ls');
    expect({ stdout, code }).toEqual({
      stdout: (await runCommand('checkpoint', 'ls', '--help')).stdout,
      code: 0,
    });
  });

  test('usage lines contain [flags]', async () => {
    expect((await runCommand('--help')).stdout).toMatch(/^ {2}shoal run \[flags\] <job\.ts> \[-- args\]$/m);
    expect((await runCommand('run', '--help')).stdout).toContain('shoal run [flags] <job.ts> [-- args]\n');
    expect((await runCommand('checkpoint', '--help')).stdout).toContain(
      'shoal checkpoint verify [flags] [<name|path>]\n',
    );
    expect((await runCommand('predict', '--help')).stdout).toContain(
      'predict --input json|file|- [flags] <dir>\n',
    );
  });

  test.each(['run', 'task'])('of %s documents the exit codes', async (name) => {
    const { stdout } = await runCommand(name, '--help');
    for (const code of Object.values(EXIT)) expect(stdout).toMatch(new RegExp(`^ +${code} {2,}\\w`, 'm'));
  });

  test('of run and task say what SIGTERM gives', async () => {
    const line = async (name: string, code: number) =>
      new RegExp(`^ +${code} {2,}(.*)$`, 'm').exec((await runCommand(name, '--help')).stdout)?.[1];
    expect(await line('task', EXIT.retry)).toContain('SIGTERM');
    expect(await line('run', EXIT.retry)).not.toContain('SIGTERM');
    expect(await line('run', EXIT.interrupted)).toContain('SIGTERM');
  });

  test.each([
    'init',
    'run',
    'task',
    'status',
    'config',
    'completion',
    'saved-model show',
    'predict',
    'certs init',
    'certs issue',
    ...CHECKPOINT.map((name) => `checkpoint ${name}`),
  ])('of %s shows examples', async (name) => {
    const { stdout, code } = await runCommand(...name.split(' '), '--help');
    expect(code).toBe(0);
    expect(stdout).toMatch(/Examples?:\n(.*\n)*? {2}.*shoal /);
  });
});

const JOB = fileURLToPath(new URL('../../examples/linear-regression/job.ts', import.meta.url));

describe('wrong input', () => {
  test.each([
    ['an unknown command', ['rnu'], 'did you mean `run`'],
    ['an unknown flag', ['run', 'job.ts', '--worker', '3'], 'did you mean --workers'],
    ['no job file', ['run'], 'Expected argument for job.ts'],
    ['no ps at all', ['run', 'job.ts', '--ps', '0'], 'from 1 to 1000'],
    ['an invalid number', ['run', 'job.ts', '--ps', 'two'], 'Failed to parse "two" for ps'],
    ['an unknown shell', ['completion', 'csh'], 'expected bash, zsh, fish'],
    ['days out of range', ['certs', 'init', '--days', '0'], 'from 1 to 36500'],
  ])('%s is rejected with a reason', async (_, args, reason) => {
    const { stderr, code } = await runCommand(...args);
    expect(code).toBe(EXIT.usage);
    expect(stderr).toMatch(/^SHOAL_INVALID_ARGUMENT: /);
    expect(stderr).toContain(reason);
  });

  test.each([
    ['an unknown command', ['rnu'], 'did you mean `run`'],
    ['an unknown flag', ['run', 'job.ts', '--worker', '3'], 'did you mean --workers'],
    ['a missing argument', ['run'], 'Expected argument for job.ts'],
    ['an invalid number', ['run', 'job.ts', '--ps', 'two'], 'Failed to parse "two" for ps'],
  ])('%s is reported as JSON with --json', async (_, args, reason) => {
    const { stderr, code } = await runCommand(...args, '--json');
    expect(code).toBe(EXIT.usage);
    expect(JSON.parse(stderr)).toEqual({
      level: 'error',
      code: 'SHOAL_INVALID_ARGUMENT',
      message: expect.stringContaining(reason),
    });
  });

  test('with --json the error of a command is JSON with its code and hint', async () => {
    const { stderr, code } = await runCommand('run', join(scratch, 'none.ts'), '--json');
    expect(code).toBe(EXIT.usage);
    expect(JSON.parse(stderr)).toEqual({
      level: 'error',
      code: 'SHOAL_NOT_FOUND',
      message: `there is no job file ${scratch}/none.ts`,
      hint: expect.stringContaining('defineJob'),
    });
  });

  test('an error shows the first line of the user’s program in its stack, once', () => {
    const error = new ShoalError('SHOAL_INVALID_ARGUMENT', 'shapes differ', { hint: 'reshape' });
    error.stack = [
      'ShoalError: shapes differ',
      `    at matMul (${fileURLToPath(new URL('../../src/tensorflow/ops/math.ts', import.meta.url))}:1:1)`,
      '    at f (file:///home/me/node_modules/other/index.js:1:1)',
      '    at Object.model (file:///home/me/my%20jobs/job.ts:3:7)',
      '    at main (file:///home/me/main.ts:1:1)',
    ].join('\n');
    expect(describeFailure(error)).toBe(
      'SHOAL_INVALID_ARGUMENT: shapes differ\n  at /home/me/my jobs/job.ts:3:7\n  hint: reshape',
    );
    expect(JSON.parse(describeFailureAsJson(error))).toMatchObject({ at: '/home/me/my jobs/job.ts:3:7' });
    expect(userFrameOf(error, '/home/me')).toBe('my jobs/job.ts:3:7');
    expect(userFrameOf(new Error('outer', { cause: error }), '/home/me')).toMatch(/commands\.test\.ts/);
  });

  test('an address that other machines reach is rejected with a reason and a hint', async () => {
    const { stderr, code } = await runCommand(
      'run',
      JOB,
      '--ps',
      '1',
      '--host',
      '10.0.0.1',
      '--engine',
      'grpc',
    );
    expect(code).toBe(2);
    expect(stderr).toMatch(/--host 10\.0\.0\.1 is reachable from other machines[\s\S]*--insecure-network/);
  });

  test('a job file that is not a program is rejected without a stack', async () => {
    writeFileSync(join(scratch, 'README.md'), '# A job');
    const { stderr, code } = await runCommand('run', join(scratch, 'README.md'));
    expect(code).toBe(2);
    expect(stderr).toMatch(/README\.md is not a TypeScript or JavaScript file\n {2}hint: .*\n$/);
  });

  test('an invalid value of a flag names the flag', async () => {
    const { stderr, code } = await runCommand('run', JOB, '--heartbeat-ms', 'often');
    expect(code).toBe(2);
    expect(stderr).toContain('--heartbeat-ms: expected an integer');
  });

  test('an unknown command that is similar to no other gets no suggestion', async () => {
    const { stderr } = await runCommand('frobnicate');
    expect(stderr).toContain('No command registered for `frobnicate`');
    expect(stderr).not.toContain('did you mean');
  });

  test('a task at an address that other machines reach is rejected', async () => {
    const { stderr, code } = await runCommand(
      'task',
      JOB,
      '--job_name=ps',
      '--task_index=0',
      '--ps_hosts=ps.example:2222',
      '--worker_hosts=w.example:2222',
      '--engine=grpc',
    );
    expect(code).toBe(2);
    expect(stderr).toMatch(/\/job:ps\/task:0 at ps\.example:2222[\s\S]*SHOAL_INSECURE_NETWORK=1/);
  });

  test.each(['127.0.0.1', 'localhost', '::1'])('%s needs no flag', (host) => {
    expect(() => refuseOpenHost(host, 'a task')).not.toThrow();
  });

  test('exit codes: 2 for a wrong configuration, 75 for a port in use, 130 for an interrupt', () => {
    expect(exitCodeOfFailure(new ShoalError('SHOAL_CONFIG', 'no port'))).toBe(2);
    expect(exitCodeOfFailure(new ShoalError('SHOAL_ADDRESS_IN_USE', 'cannot listen'))).toBe(75);
    expect(exitCodeOfFailure(new ShoalError('SHOAL_ABORTED', 'stopped'))).toBe(130);
    expect(exitCodeOfFailure(new Error('any other'))).toBe(1);
  });

  test('an error that wraps one of Shoal shows its hint', () => {
    const cause = new ShoalError('SHOAL_CONFIG', 'no port', { hint: 'set a port' });
    expect(describeFailure(new Error('mine', { cause }))).toMatch(
      /^Error: mine\n[\s\S]*\n {2}hint: set a port$/,
    );
  });

  test('an error of TensorFlow shows its status once', () => {
    const error = new TensorFlowError('UNAVAILABLE', 'Socket closed');
    error.stack = '';
    expect(describeFailure(error)).toBe('SHOAL_TF_UNAVAILABLE: Socket closed');
  });

  test('a stack shows only frames of the program', () => {
    const error = new Error('mine');
    error.stack = [
      'Error: mine',
      '    at model (file:///home/me/job.ts:3:7)',
      '    at async importUser (/opt/shoal/src/app/cli/job/load-job.ts:1:1)',
      '    at node:internal/modules/esm/loader:1:1',
      '    at x (/home/me/node_modules/tsx/dist/a.mjs:1:1)',
    ].join('\n');
    expect(cleanStack(error)).toBe('Error: mine\n    at model (/home/me/job.ts:3:7)');
  });
});

test('a command that runs until Ctrl-C ends quietly when nobody reads its output', async () => {
  const stdout = new EventEmitter();
  const closed = closedOutput([stdout]);
  const error = Object.assign(new Error('write EPIPE'), { code: 'EPIPE' });
  stdout.emit('error', error);
  const { output, process } = context();
  await runShoal(['status', '--watch'], process as never, closed);
  expect({ ...output, code: process.exitCode }).toEqual({ stdout: '', stderr: '', code: 0 });
  expect(isReaderGone(closed.reason)).toBe(true);
});

describe('config', () => {
  const FLAGS = ['--job_name=ps', '--task_index=0', '--ps_hosts=a:1', '--worker_hosts=b:1,c:1'];

  test('lists every value and its source', async () => {
    const { stdout } = await runCommand('config', ...FLAGS, '--tf_port', '2223');
    expect(stdout).toMatch(/^cluster\.worker +b:1, c:1 +--worker-hosts$/m);
    expect(stdout).toMatch(/^tf_port +2223 +--tf-port$/m);
    expect(stdout).toMatch(/^heartbeat_ms +500 +default$/m);
  });

  test('--json prints the same as JSON', async () => {
    const { stdout } = await runCommand('config', ...FLAGS, '--insecure_network', '--json');
    expect(JSON.parse(stdout)).toMatchObject({
      task: { value: '/job:ps/task:0' },
      insecure_network: { value: true, from: '--insecure-network' },
    });
  });

  test('a task that is not in the cluster exits with 2 and names the flag', async () => {
    const { stderr, code } = await runCommand('config', ...FLAGS.with(1, '--task_index=4'));
    expect(code).toBe(2);
    expect(stderr).toContain('--task-index: 4 is out of range');
  });
});

describe('certs', () => {
  test('creates an authority and certificates, readable only by their owner, and overwrites nothing', async () => {
    const dir = join(scratch, 'certs');
    expect((await runCommand('certs', 'init', '--dir', dir)).code).toBe(0);
    expect((await runCommand('certs', 'issue', '/job:ps/task:1', '--dir', dir)).code).toBe(0);
    expect(readdirSync(dir).sort()).toEqual(['ca.crt', 'ca.key', 'ps-1.crt', 'ps-1.key']);
    for (const name of readdirSync(dir)) expect(statSync(join(dir, name)).mode & 0o077).toBe(0);
    for (const again of [['init'], ['issue', '/job:ps/task:1']]) {
      const { stderr, code } = await runCommand('certs', ...again, '--dir', dir);
      expect(code).toBe(1);
      expect(stderr).toMatch(/^SHOAL_ALREADY_EXISTS: .*\.key exists\n {2}hint: .*does not overwrite/);
    }
  });

  test('a directory that cannot be created is an error without a stack', async () => {
    writeFileSync(join(scratch, 'file'), '');
    const dir = join(scratch, 'file/certs');
    const { stderr, code } = await runCommand('certs', 'init', '--dir', dir);
    expect(code).toBe(2);
    expect(stderr).toMatch(
      /^SHOAL_CONFIG: .*\/file\/certs cannot be used: a part of the path is a file\n {2}hint: .*\n$/,
    );
  });

  test('issue without an authority prints how to create one', async () => {
    const { stderr } = await runCommand('certs', 'issue', 'ps', '--dir', scratch);
    expect(stderr).toContain(`shoal certs init --dir ${scratch}`);
  });
});

test('init says why a directory cannot be created', async () => {
  // It accepts no new directories, whoever asks.
  const { stderr, code } = await runCommand('init', '/proc/my-model');
  expect(stderr).toMatch(
    /SHOAL_CONFIG: the directory of the project: \/proc\/my-model cannot be used: .*\n {2}hint: Choose/s,
  );
  expect(code).toBe(2);
});

describe('completion', () => {
  test.each([
    [['sta'], ['status']],
    [
      ['certs', ''],
      ['init', 'issue'],
    ],
    [['run', 'job.ts', '--wo'], ['--workers']],
    [['checkpoint', ''], CHECKPOINT],
    [['checkpoint', 'inspect', 'la'], ['latest']],
    [['checkpoint', 'repair', '--dry'], ['--dry-run']],
    [
      ['completion', ''],
      ['bash', 'zsh', 'fish'],
    ],
    // Nothing: the shell completes file names.
    [['run', ''], []],
    [['checkpoint', 'push', ''], []],
  ])('of %o', async (words, expected) => {
    const { stdout } = await runCommand('complete', '--', ...words);
    expect(stdout.split('\n').filter(Boolean)).toEqual(expected);
  });

  test('proposes what the application proposes', async () => {
    const proposed = await proposeCompletions(application, ['status', '--'], context().given);
    const { stdout } = await runCommand('complete', '--', 'status', '--');
    expect(stdout.trim().split('\n')).toEqual(proposed.map(({ completion }) => completion));
  });

  test.each(['bash', 'zsh', 'fish'])('has code for %s', async (shell) => {
    const { stdout } = await runCommand('completion', shell);
    expect(stdout).toContain(' complete -- ');
    // No program of that name is on the PATH of a project.
    expect(stdout).not.toMatch(/(^|[\s($])shoal complete/m);
  });

  test.each([
    ['of shoal', ['shoal', 'sta']],
    ['of npx shoal', ['npx', 'shoal', 'sta']],
  ])('%s works in bash without shoal on the PATH', async (_, words) => {
    const { stdout } = await runCommand('completion', 'bash');
    const typed = words.map((word) => `'${word}'`).join(' ');
    const script = `${stdout}\nCOMP_WORDS=(${typed}); COMP_CWORD=${words.length - 1}; _shoal; echo "\${COMPREPLY[@]}"`;
    const env = { PATH: `${dirname(process.execPath)}:/usr/bin:/bin` };
    expect(
      execFileSync('bash', ['--norc', '-c', script], { cwd: scratch, env, encoding: 'utf8' }).trim(),
    ).toBe('status');
  });
});

describe('the cluster that status contacts', () => {
  const find = (options: object = {}) => findCluster({ env: {}, cwd: scratch, ...options });
  const place = (job: string, launcher = process.pid) =>
    writeClusterFile(join(scratch, '.shoal', job), {
      job,
      launcher,
      token: 'a-token-of-enough-length',
      agents: [`127.0.0.1:${1000 + job.length}`],
    });

  test('is the one that runs from this directory', () => {
    place('one');
    expect(find()).toEqual({
      addresses: ['127.0.0.1:1003'],
      security: { kind: 'token', token: 'a-token-of-enough-length' },
    });
  });

  test('must be chosen when several run', () => {
    place('one');
    place('three');
    expect(() => find()).toThrow(described('--dir .shoal/one or --dir .shoal/three'));
    expect(find({ dir: '.shoal/three' }).addresses).toEqual(['127.0.0.1:1005']);
  });

  test('is not one whose launcher has exited or whose file is damaged', () => {
    place('gone', 2 ** 30);
    place('damaged');
    writeFileSync(join(scratch, '.shoal/damaged/cluster.json'), '{');
    expect(() => find()).toThrow('no cluster runs in');
  });

  test('is that of TF_CONFIG, chief and ps first', () => {
    const cluster = { worker: ['a:1', 'b:1'], ps: ['c:1'] };
    const env = { TF_CONFIG: JSON.stringify({ cluster, task: { type: 'worker', index: 1 } }) };
    expect(find({ env }).addresses).toEqual(['a:1', 'c:1', 'b:1']);
  });

  test('is that at --agent, which takes precedence', () => {
    place('one');
    expect(find({ agent: 'h:1, i:2' })).toEqual({ addresses: ['h:1', 'i:2'], security: { kind: 'none' } });
  });
});
