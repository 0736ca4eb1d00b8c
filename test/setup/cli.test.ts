/** The command line as a real process: help, version, doctor; none of them may load TensorFlow. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { pinFor, platformKey, readLock } from '../../scripts/setup/locate.mjs';
import { locateTensorFlow } from '../../src/tensorflow/native/library/locate.js';
import { ROOT, startNode } from './run-setup.js';

const BIN = join(ROOT, 'bin/shoal.cjs');
let scratch: string;
let libraries: string;

beforeAll(() => {
  scratch = mkdtempSync(join(tmpdir(), 'shoal-cli-'));
  libraries = join(scratch, 'libraries');
  mkdirSync(libraries);
  for (const { file, size } of Object.values(pinFor(readLock(), platformKey()).libraries)) {
    writeFileSync(join(libraries, file), '');
    truncateSync(join(libraries, file), size);
  }
});

afterAll(() => rmSync(scratch, { recursive: true, force: true }));

const shoal = (args: readonly string[], env: Readonly<Record<string, string>> = {}) =>
  startNode([BIN, ...args], { SHOAL_CACHE: join(scratch, 'cache'), ...env }).ended;

test('--help lists the commands', async () => {
  const { code, stdout } = await shoal(['--help']);
  expect(code).toBe(0);
  expect(stdout).toMatch(/doctor .*\n.*setup /);
});

test('--version prints the version of the package', async () => {
  const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
  expect((await shoal(['--version'])).stdout.trim()).toBe(version);
});

test('an unknown command exits with 2 and suggests a similar one', async () => {
  const { code, stderr } = await shoal(['doctr']);
  expect(code).toBe(2);
  expect(stderr).toContain('doctor');
});

test('doctor --json lists all findings and exits with 0 where Shoal can run', async () => {
  const { code, stdout } = await shoal(['doctor', '--json'], { SHOAL_TF_DIR: libraries });
  expect(code).toBe(0);
  const diagnosis = JSON.parse(stdout);
  expect(diagnosis.usable).toBe(true);
  expect(diagnosis.findings.map(({ name }: { name: string }) => name)).toEqual([
    'platform',
    'node',
    'library',
    'request ids',
    'checksums',
    'cpu',
    'oneDNN',
    'gpu',
    'threads',
    'disk',
    'namespaces',
    'python',
  ]);
  for (const finding of diagnosis.findings) {
    expect(finding).toEqual({
      name: expect.any(String),
      status: expect.stringMatching(/^(?:ok|warning|problem)$/),
      summary: expect.stringMatching(/./),
      details: expect.any(Object),
      ...(finding.status === 'ok' ? {} : { fix: expect.stringMatching(/./) }),
    });
  }
});

test('doctor without a library exits with 1, lists the searched places and prints a fix', async () => {
  const { code, stdout } = await shoal(['doctor']);
  expect(code).toBe(1);
  expect(stdout).toMatch(/^problem +library /m);
  expect(stdout).toContain(`searched cache ${join(scratch, 'cache')}`);
  expect(stdout).toContain('fix: Run `npx shoal setup`');
});

test('the command line sizes the thread pool before its first use', async () => {
  const { stdout } = await shoal(['doctor', '--json']);
  const threads = JSON.parse(stdout).findings.find(({ name }: { name: string }) => name === 'threads');
  expect(threads.details).toEqual({ size: 64, from: 'shoal', certain: true });
});

test('setup with a SHOAL_TF_DIR that does not exist prints a Shoal error without a stack', async () => {
  const { code, stderr } = await shoal(['setup'], { SHOAL_TF_DIR: join(scratch, 'nowhere') });
  expect(code).toBe(1);
  expect(stderr).toContain('SHOAL_LIBRARY: ');
  expect(stderr).toContain('hint: ');
  expect(stderr).not.toMatch(/^ +at /m);
});

/** Runs JavaScript in a process that could load TensorFlow, and returns whether it did. */
async function loadsTensorFlow(body: string): Promise<boolean> {
  const report = `process.on('exit', () => {
    const maps = require('node:fs').readFileSync('/proc/self/maps', 'utf8');
    require('node:fs').writeSync(2, '\\nloaded: ' + maps.includes('libtensorflow'));
  });`;
  const { dir } = locateTensorFlow();
  const { stderr } = await startNode(['-e', `${report}\n${body}`], { SHOAL_TF_DIR: dir }).ended;
  const loaded = /loaded: (true|false)/.exec(stderr)?.[1];
  expect(loaded, stderr).toBeDefined();
  return loaded === 'true';
}

const runs = (arg: string) =>
  `process.argv = [process.execPath, 'shoal', '${arg}']; require(${JSON.stringify(BIN)});`;

test.runIf(process.platform === 'linux')('--help does not load the library', async () => {
  expect(await loadsTensorFlow(runs('--help'))).toBe(false);
});

test.runIf(process.platform === 'linux')('doctor does not load the library', async () => {
  expect(await loadsTensorFlow(runs('doctor'))).toBe(false);
});
