/** The file that locks a directory against a second launcher. */
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

it('describes a cluster whose launcher runs, and locks its directory', () => {
  write(process.pid);
  expect(readClusterFile(dir)).toMatchObject({ job: 'mnist', launcher: process.pid });
  expect(() => claimDirectory(dir)).toThrow(/job mnist already runs in /);
});

it('is ignored when its launcher has ended', async () => {
  const child = spawn('true');
  await once(child, 'close');
  write(child.pid!);
  expect(readClusterFile(dir)).toBeUndefined();
  claimDirectory(dir);
});

it.runIf(process.platform === 'linux')(
  'is ignored when another process has the pid of its launcher',
  async () => {
    const child = spawn('sleep', ['60']);
    await once(child, 'spawn');
    try {
      // The file contains the start time of this process, not of the child.
      write(child.pid!);
      expect(JSON.parse(readFileSync(join(dir, 'cluster.json'), 'utf8')).startTicks).toMatch(/^\d+$/);
      expect(readClusterFile(dir)).toBeUndefined();
      claimDirectory(dir);
    } finally {
      child.kill('SIGKILL');
    }
  },
);

it('is ignored when it is malformed', () => {
  writeFileSync(join(dir, 'cluster.json'), '{');
  expect(readClusterFile(dir)).toBeUndefined();
});
