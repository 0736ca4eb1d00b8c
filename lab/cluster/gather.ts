/**
 * Copies the newest checkpoint from the disks of hosts with `shoal checkpoint pull`, and reads it without TensorFlow,
 * for comparison with what Python TensorFlow reads.
 */
import { execFile } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { crc32 } from '@node-rs/crc32';
import { parseCheckpointState } from '../../src/tensorflow/formats/checkpoint-state/checkpoint-state.js';
import { DirectoryReader } from '../../src/tensorflow/formats/range-reader.js';
import { BundleReader } from '../../src/tensorflow/formats/tensor-bundle/bundle-reader.js';
import { DTYPES, type DType, dtypeFromNumber } from '../../src/tensorflow/tensor/dtype.js';
import type { Lab, LabHost } from '../hosts/hosts.js';
import { SHOAL } from '../scenarios/scenario-run.js';

const run = promisify(execFile);

export interface Gathered {
  readonly path: string;
  readonly step: number;
  /** Every tensor as nested arrays of plain numbers and strings. */
  readonly ours: Readonly<Record<string, unknown>>;
  /** The crc32 (zlib's) of the bytes of every tensor. */
  readonly sums: Readonly<Record<string, number>>;
}

export interface GatherOptions {
  /** The name of the job among the blobs. */
  readonly job: string;
  /** The parent of the tasks' directories on each disk. */
  readonly home?: string;
  /** A store that all hosts see, instead of their disks. */
  readonly store?: string;
  readonly values?: boolean;
}

/** A host's disk as the owner of the lab sees it, where the disk has no limit. */
export const diskOf = (lab: Lab, { name }: LabHost): string => join(lab.directory, 'hosts', name, 'disk');

export async function gather(
  lab: Lab,
  directory: string,
  { job, home = '.shoal', store, values = true }: GatherOptions,
): Promise<Gathered> {
  const scratch = await mkdtemp(join(tmpdir(), 'shoal-gather-'));
  try {
    const dirs: string[] = [];
    for (const host of lab.hosts) dirs.push(...(await blobsOf(lab, host, home, scratch)));
    const where = store === undefined ? ['--dirs', dirs.join(), '--job', job] : ['--store', store];
    const command = [SHOAL, 'checkpoint', 'pull', 'latest', directory, ...where, '--json'];
    const { stdout } = await run(process.execPath, command);
    const { path } = JSON.parse(stdout) as { path: string };
    return { path, step: Number(/-(\d+)$/.exec(path)?.[1]), ...(await valuesOf(path, values)) };
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

/** The blob directories of the tasks on a host. A disk with a size limit is visible to the host only: it is copied. */
async function blobsOf(lab: Lab, host: LabHost, home: string, scratch: string): Promise<string[]> {
  let disk = diskOf(lab, host);
  if (readdirSync(disk).length === 0) {
    disk = join(scratch, host.name);
    await mkdir(disk);
    const { stdout } = await host.exec('sh', ['-c', `[ ! -d ${home} ] || tar -cf - ${home} | base64 -w0`], {
      cwd: host.disk,
    });
    if (stdout !== '') {
      await writeFile(`${disk}.tar`, Buffer.from(stdout, 'base64'));
      await run('tar', ['-C', disk, '-xf', `${disk}.tar`]);
    }
  }
  const place = join(disk, home);
  if (!existsSync(place)) return [];
  return readdirSync(place)
    .map((task) => join(place, task, 'blobs'))
    .filter((path) => existsSync(path));
}

/** The step of the newest checkpoint in the `checkpoint` file of a directory on a host. */
export async function newestStep(host: LabHost, directory: string): Promise<number> {
  const text = (await host.readFile(`${directory}/checkpoint`)).toString();
  return Number(/-(\d+)$/.exec(parseCheckpointState(text).modelCheckpointPath)?.[1]);
}

/** The values of a checkpoint in TensorFlow's format, by its path. */
export async function valuesOf(path: string, wantsValues = true): Promise<Pick<Gathered, 'ours' | 'sums'>> {
  const [directory, prefix] = [join(path, '..'), path.slice(path.lastIndexOf('/') + 1)];
  await using files = new DirectoryReader(directory);
  const bundle = await BundleReader.open(files, prefix);
  const ours: Record<string, unknown> = {};
  const sums: Record<string, number> = {};
  for (const { name, dtype, shape } of bundle.index.tensors.values()) {
    const type: DType = dtypeFromNumber(dtype);
    const { array: ArrayType } = DTYPES[type];
    if (!ArrayType) continue;
    const bytes = await bundle.read(name);
    sums[name] = crc32(bytes);
    if (!wantsValues) continue;
    const flat = Array.from(
      new ArrayType(bytes.slice().buffer as ArrayBuffer) as ArrayLike<number | bigint>,
      Number,
    );
    ours[name] = nested(flat, shape);
  }
  return { ours, sums };
}

function nested(flat: readonly number[], shape: readonly number[]): unknown {
  const [size, ...rest] = shape;
  if (size === undefined) return flat[0];
  const step = flat.length / size;
  return Array.from({ length: size }, (_, i) => nested(flat.slice(i * step, (i + 1) * step), rest));
}
