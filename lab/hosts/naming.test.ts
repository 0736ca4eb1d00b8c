import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { claimLab, formatLabName, ownerIsAlive, ownStart, parseLabName, subnetOf } from './naming.js';

let base: string;
beforeEach(async () => {
  base = await mkdtemp(join(tmpdir(), 'shoal-naming-'));
});
afterEach(() => rm(base, { recursive: true }));

describe('names of labs', () => {
  it('are parsed as they are formatted, and other names are rejected', () => {
    const name = { pid: 12, start: 345, slot: 6 };
    expect(parseLabName(formatLabName(name))).toEqual(name);
    expect(parseLabName('shoal-lab-12-345')).toBeUndefined();
    expect(parseLabName('shoal-lab-12-345-6.old')).toBeUndefined();
  });

  it('distinguish a live owner from a process with a reused pid', async () => {
    const start = await ownStart();
    expect(await ownerIsAlive({ pid: process.pid, start, slot: 0 })).toBe(true);
    expect(await ownerIsAlive({ pid: process.pid, start: start + 1, slot: 0 })).toBe(false);
  });

  it('give every slot a separate network', () => {
    expect(subnetOf(0, 10)).toBe('10.64.0');
    expect(subnetOf(64 * 256 - 1, 127)).toBe('127.127.255');
  });
});

describe('claimLab', () => {
  it('skips a slot that another lab uses', async () => {
    await mkdir(join(base, 'shoal-lab-1-1-0'));
    const draws = [0, 0, 0.5];
    const { slot } = await claimLab(base, () => draws.shift() ?? 0.5);
    expect(slot).toBe(64 * 128);
  });

  it('gives twenty concurrent claims twenty slots', async () => {
    // A random source with few values causes conflicts.
    let turn = 0;
    const draw = () => (Math.floor(turn++ / 3) % 60) / 64;
    const claims = await Promise.all(Array.from({ length: 20 }, () => claimLab(base, draw)));
    expect(new Set(claims.map(({ slot }) => slot)).size).toBe(20);
    expect(await readdir(base)).toHaveLength(20);
  });
});
