import { mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { moduleUrl, runProgram } from '../../../../test/child.js';
import { locateTensorFlow } from './locate.js';

const RUN = `
const graph = new Graph();
const session = Session.open({ graph });
const sum = graph.asDefault(() => tf.add(1, 2));
process.stdout.write(String(session.runSync(sum).item()));
await session.close();`;

describe("TensorFlow's log lines", () => {
  test('do not reach the terminal, those of the program do', async () => {
    const ended = await runProgram(`console.error('before');${RUN}console.error('after');`);
    expect(ended).toMatchObject({ code: 0, stdout: '3', stderr: 'before\nafter\n' });
  });

  test('appear with SHOAL_TF_LOG', async () => {
    const { code, stdout, stderr } = await runProgram(RUN, { env: { SHOAL_TF_LOG: '0' } });
    expect({ code, stdout }).toEqual({ code: 0, stdout: '3' });
    expect(stderr).toMatch(/oneDNN|cpu_feature_guard|CPU/);
  });
});

test('concurrent preloads block neither the event loop nor the program’s output', async () => {
  const { stderr, stdout } = await runProgram(`
    const { preloadLibrary, isLibraryLoaded } = await import('${moduleUrl('src/tensorflow/native/library/library.ts')}');
    let ticks = 0;
    const timer = setInterval(() => { ticks += 1; }, 1);
    await Promise.all([preloadLibrary(), preloadLibrary(), preloadLibrary()]);
    clearInterval(timer);
    console.error('after');
    console.log(isLibraryLoaded(), ticks > 0);${RUN}`);
  expect({ stderr, stdout }).toEqual({ stderr: 'after\n', stdout: 'true true\n3' });
});

describe('an incompatible library', () => {
  let scratch: string;
  const { ccPath, frameworkPath } = locateTensorFlow();
  beforeAll(() => {
    scratch = mkdtempSync(join(tmpdir(), 'shoal-library-'));
    // The framework library has only some functions of the C API: it acts as an incompatible library.
    for (const path of [ccPath, frameworkPath]) symlinkSync(frameworkPath, join(scratch, basename(path)));
  });
  afterAll(() => rmSync(scratch, { recursive: true, force: true }));

  test('is rejected with the names of the missing functions, without terminal output', async () => {
    const { stdout, stderr } = await runProgram(
      `try { new Graph(); } catch ({ code, message, hint }) { console.error("after"); console.log(code, message, hint); }`,
      { env: { SHOAL_TF_DIR: scratch } },
    );
    expect(stdout).toMatch(/^SHOAL_LIBRARY .*is missing \d+ symbols: .*TF_NewGraph.*TF_SessionRun/s);
    expect(stdout).toContain(scratch);
    expect(stdout).not.toContain('TF_NewStatus,');
    expect(stdout).toContain('too old');
    expect(stderr).toBe('after\n');
  });
});
