/**
 * Takes the newest checkpoint off the disks of hosts on which nothing runs any more, into one directory, and reads it.
 * Each file comes from whichever host has a copy that the manifest vouches for.
 */
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { crc32 } from '@node-rs/crc32';
import { listCheckpoints, newestFirst } from '../src/checkpoint/catalog.js';
import type { Manifest } from '../src/checkpoint/manifest.js';
import { pullCheckpoint } from '../src/checkpoint/transfer.js';
import { DirectoryReader } from '../src/formats/range-reader.js';
import { BundleReader } from '../src/formats/tensor-bundle/bundle-reader.js';
import { DirectoryStore } from '../src/store/directory-store.js';
import { DTYPES, type DType, dtypeFromNumber } from '../src/tensor/dtype.js';
import type { LabHost } from './hosts.js';

const run = promisify(execFile);

export interface Gathered {
  readonly path: string;
  readonly manifest: Manifest;
  /** Every tensor as nested arrays of plain numbers and strings. */
  readonly ours: Readonly<Record<string, unknown>>;
  /** The crc32 (zlib's) of the bytes of every tensor. */
  readonly sums: Readonly<Record<string, number>>;
}

export async function gather(
  hosts: readonly LabHost[],
  directory: string,
  { values = true }: { readonly values?: boolean } = {},
): Promise<Gathered> {
  const scratch = await mkdtemp(join(tmpdir(), 'shoal-gather-'));
  try {
    const union = join(scratch, 'union');
    await mkdir(union);
    for (const host of hosts) {
      const { stdout } = await host.exec('sh', [
        '-c',
        `cd ${host.disk} && for d in .shoal/*/blobs; do [ -d "$d" ] && tar -C "$d" -cf - . | base64 -w0 && echo; done; true`,
      ]);
      for (const [i, line] of stdout.split('\n').entries()) {
        if (line === '') continue;
        const archive = join(scratch, `${host.name}-${i}.tar`);
        await writeFile(archive, Buffer.from(line, 'base64'));
        await run('tar', ['-C', union, '-xf', archive]);
      }
    }
    const store = new DirectoryStore(union);
    const found: { manifest: Manifest; namespace: string }[] = [];
    for (const namespace of (await readdir(union)).filter((name) => !name.startsWith('.'))) {
      const manifests = await listCheckpoints(store, namespace);
      if (manifests[0]) found.push({ manifest: manifests[0], namespace });
    }
    const [newest] = found.sort((a, b) => newestFirst(a.manifest, b.manifest));
    if (!newest) throw new Error('no host has a checkpoint');
    const path = await pullCheckpoint(store, newest.namespace, newest.manifest, directory);
    return {
      path,
      manifest: newest.manifest,
      ...(await valuesOf(directory, newest.manifest.prefix, values)),
    };
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

async function valuesOf(directory: string, prefix: string, wantsValues: boolean) {
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
