/** `shoal init`: a project that runs. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { shoal } from './shoal-process.js';

let scratch: string;
beforeEach(() => {
  scratch = mkdtempSync(join(tmpdir(), 'shoal-init-'));
});
afterEach(() => rmSync(scratch, { recursive: true, force: true }));

test('creates a project whose job trains and exports', async () => {
  const { code, stdout } = await shoal(['init', 'My model'], { cwd: scratch });
  expect(code).toBe(0);
  expect(stdout).toContain('npm install');
  const project = join(scratch, 'My model');
  expect(readdirSync(project).sort()).toEqual([
    '.gitignore',
    'README.md',
    'job.ts',
    'package.json',
    'tsconfig.json',
  ]);
  const { name, scripts } = JSON.parse(readFileSync(join(project, 'package.json'), 'utf8'));
  expect(name).toBe('my-model');
  const [, ...start] = (scripts.start as string).split(' ');
  const trained = await shoal(start, { cwd: project });
  expect(trained.code, trained.stderr).toBe(0);
  expect(trained.stdout).toMatch(/exported step 2000 to .*\ndone at step 2000 /);
});

test('refuses a directory with files', async () => {
  await shoal(['init', 'model'], { cwd: scratch });
  const { code, stderr } = await shoal(['init', 'model'], { cwd: scratch });
  expect(code).toBe(1);
  expect(stderr).toMatch(/SHOAL_ALREADY_EXISTS: .*model is not empty/);
});
