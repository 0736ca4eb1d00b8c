/** `npm start` as a separate process: its output, its options, Ctrl-C. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const LOADER = pathToFileURL(join(ROOT, 'node_modules/tsx/dist/loader.mjs')).href;

let directory: string;
let child: ChildProcess | undefined;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'shoal-quickstart-'));
});
afterEach(async () => {
  if (child?.exitCode === null && child.signalCode === null) child.kill('SIGKILL');
  await rm(directory, { recursive: true, force: true });
});

interface Ended {
  readonly code: number | null;
  readonly output: string;
}

/** Starts the quickstart; `watch` sees the output as it comes. */
async function quickstart(args: readonly string[], watch?: (output: string) => void): Promise<Ended> {
  const running = spawn(
    process.execPath,
    ['--import', LOADER, join(ROOT, 'examples/quickstart.ts'), ...args],
    {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, TF_CPP_MIN_LOG_LEVEL: '2' },
    },
  );
  child = running;
  let output = '';
  const collect = (chunk: Buffer) => {
    output += chunk;
    watch?.(output);
  };
  running.stdout.on('data', collect);
  running.stderr.on('data', collect);
  const code = await new Promise<number | null>((resolve, reject) => {
    running.on('error', reject);
    running.on('close', resolve);
  });
  return { code, output };
}

describe('the quickstart', () => {
  it('trains, draws a digit and prints the accuracy', async () => {
    const { code, output } = await quickstart(['--steps', '300', '--logdir', directory]);
    expect(output).toMatch(/9000 digits to train with, 1000 held out/);
    expect(output).toMatch(/step 300\/300 {3}loss \d\.\d{3} {3}accuracy \d/);
    expect(output).toMatch(/[▒▓█]{2}/);
    expect(output).toMatch(/The model predicts a \d \(\d+ %\)/);
    const accuracy = Number(/accuracy on the held-out digits is ([\d.]+) %/.exec(output)?.[1]);
    expect(accuracy).toBeGreaterThan(85);
    expect(code).toBe(0);
    expect(await readdir(directory)).toEqual([expect.stringMatching(/^events\.out\.tfevents\./)]);
  }, 240_000);

  it('ends at Ctrl-C and prints the step', async () => {
    let isSent = false;
    const { code, output } = await quickstart(['--steps', '10000000'], (text) => {
      if (isSent || !text.includes('step')) return;
      isSent = true;
      child?.kill('SIGINT');
    });
    expect(output).toMatch(/Stopped at step \d+\.\n$/);
    expect(code).toBe(130);
  }, 240_000);

  it('prints its usage with --help', async () => {
    const { code, output } = await quickstart(['--help']);
    expect(output).toMatch(/--steps <n>/);
    expect(code).toBe(0);
  }, 240_000);

  it('rejects an invalid option and prints its usage', async () => {
    const { code, output } = await quickstart(['--steps', 'many']);
    expect(output).toMatch(/--steps must be an integer of at least 1\n.*\n?.*softmax regression/);
    expect(code).toBe(2);
  }, 240_000);
});
