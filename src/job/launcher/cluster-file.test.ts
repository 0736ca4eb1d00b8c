/** The file that keeps two launchers out of one directory. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { claimDirectory, readClusterFile, writeClusterFile } from './cluster-file.js';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'shoal-cluster-file-'));
});
afterEach(() => rmSync(dir, { recursive: true }));

const write = (launcher: number) => writeClusterFile(dir, { job: 'mnist', launcher, token: '', agents: [] });

it('names a cluster whose launcher runs', () => {
  write(process.pid);
  expect(readClusterFile(dir)).toMatchObject({ job: 'mnist', launcher: process.pid });
  expect(() => claimDirectory(dir)).toThrow(/job mnist runs in .* already/);
});

it('is of no account when its launcher is gone', async () => {
  const child = spawn('true');
  await once(child, 'close');
  write(child.pid!);
  expect(readClusterFile(dir)).toBeUndefined();
  claimDirectory(dir);
});

it.runIf(process.platform === 'linux')(
  'is of no account when another process has the number of its launcher',
  async () => {
    const child = spawn('sleep', ['60']);
    await once(child, 'spawn');
    try {
      // The file says when this process started, which is another one.
      write(child.pid!);
      expect(JSON.parse(readFileSync(join(dir, 'cluster.json'), 'utf8')).startTicks).toMatch(/^\d+$/);
      expect(readClusterFile(dir)).toBeUndefined();
      claimDirectory(dir);
    } finally {
      child.kill('SIGKILL');
    }
  },
);

it('is of no account when it is no such file', () => {
  writeFileSync(join(dir, 'cluster.json'), '{');
  expect(readClusterFile(dir)).toBeUndefined();
});
