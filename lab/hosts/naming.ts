/**
 * Names of labs. A lab is a directory `shoal-lab-PID-START-SLOT` in the temp directory: the owner's pid
 * and start time show whether the owner is alive. The slot is a number that no other lab on this machine uses, and
 * determines the addresses.
 */
import { mkdir, readdir, rmdir } from 'node:fs/promises';
import { join } from 'node:path';
import { ShoalError } from '../../src/base/errors/errors.js';
import { processStat } from './proc.js';

export interface LabName {
  readonly pid: number;
  readonly start: number;
  readonly slot: number;
}

const PATTERN = /^shoal-lab-(\d+)-(\d+)-(\d+)$/;
const SLOTS = 64 * 256;

export function formatLabName({ pid, start, slot }: LabName): string {
  return `shoal-lab-${pid}-${start}-${slot}`;
}

export function parseLabName(text: string): LabName | undefined {
  const match = PATTERN.exec(text);
  if (match === null) return undefined;
  return { pid: Number(match[1]), start: Number(match[2]), slot: Number(match[3]) };
}

/** The start time of this process in clock ticks since boot; 0 if the system does not report it. */
export async function ownStart(): Promise<number> {
  return (await processStat(process.pid))?.startTicks ?? 0;
}

export async function ownerIsAlive({ pid, start }: LabName): Promise<boolean> {
  if (start !== 0) return (await processStat(pid))?.startTicks === start;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** All labs in `base`, dead ones included. */
export async function listLabs(base: string): Promise<LabName[]> {
  return (await readdir(base)).map(parseLabName).filter((name) => name !== undefined);
}

/**
 * Creates a lab's directory with a unique slot. If two labs take the same slot concurrently, at least one sees the
 * other's directory after creating its own, and then tries another slot.
 */
export async function claimLab(base: string, random: () => number = Math.random): Promise<LabName> {
  const start = await ownStart();
  for (let attempt = 0; attempt < 100; attempt++) {
    const taken = new Set((await listLabs(base)).map(({ slot }) => slot));
    const slot = Math.floor(random() * SLOTS);
    if (taken.has(slot)) continue;
    const name = { pid: process.pid, start, slot };
    const directory = join(base, formatLabName(name));
    try {
      await mkdir(directory, { mode: 0o755 });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EEXIST') continue;
      throw error;
    }
    const rivals = (await listLabs(base)).filter((other) => other.slot === slot);
    if (rivals.length === 1) return name;
    await rmdir(directory);
  }
  throw new ShoalError('SHOAL_INTERNAL', `no free lab slot found in ${base}`, {
    hint: 'remove the shoal-lab-* directories of labs that are gone',
  });
}

/** The value of SHOAL_LAB_MARK for processes of a lab that cannot be identified by their mounts. */
export function markOf(name: string): string {
  return `/${name}/`;
}

/** The /24 network of a slot within a network with an 8-bit prefix: 10 on a bridge, 127 on loopback. */
export function subnetOf(slot: number, first: 10 | 127): string {
  return `${first}.${64 + (slot >> 8)}.${slot & 255}`;
}
