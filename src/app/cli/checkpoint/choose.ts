/** Resolves a checkpoint name: a prefix, a step, `prefix@attempt`, or `latest`. */

import { ShoalError } from '../../../base/errors/errors.js';
import type { Manifest } from '../../../distributed/checkpoint/format/manifest.js';
import { type CatalogOptions, listCheckpoints } from '../../../distributed/checkpoint/reading/catalog.js';
import type { OpenStore } from './open.js';

export interface Chosen {
  readonly job: string;
  readonly manifest: Manifest;
  /** All checkpoints of the job, newest first. */
  readonly all: readonly Manifest[];
}

export async function chooseOne(open: OpenStore, name: string, options: CatalogOptions): Promise<Chosen> {
  const { job, all } = await listJob(open, options);
  const manifest = manifestNamed(all, name);
  if (manifest) return { job, manifest, all };
  if (all.length === 0) await open.requireJob(options.signal);
  throw new ShoalError('SHOAL_NOT_FOUND', `${describeJob(open, job)} has no checkpoint ${name}`, {
    hint:
      all.length === 0
        ? 'it has no checkpoints'
        : `it has ${all
            .slice(0, 5)
            .map(({ prefix }) => prefix)
            .join(', ')}${all.length > 5 ? ', …' : ''}`,
  });
}

/** Chooses the checkpoint with the given name (default: the newest), or all of them. */
export async function chooseSome(
  open: OpenStore,
  name: string | undefined,
  all: boolean,
  options: CatalogOptions,
): Promise<Omit<Chosen, 'manifest'> & { readonly manifests: readonly Manifest[] }> {
  if (all && name !== undefined) throw new ShoalError('SHOAL_CONFIG', `${name} conflicts with --all`);
  if (!all) {
    const { manifest, ...chosen } = await chooseOne(open, name ?? 'latest', options);
    return { ...chosen, manifests: [manifest] };
  }
  const { job, all: manifests } = await listJob(open, options);
  if (manifests.length === 0)
    throw new ShoalError('SHOAL_NOT_FOUND', `${describeJob(open, job)} has no checkpoints`);
  return { job, manifests, all: manifests };
}

async function listJob(open: OpenStore, options: CatalogOptions) {
  const job = await open.job(options.signal);
  return { job, all: await listCheckpoints(open.store, job, options) };
}

/** If several checkpoints have the name, returns the newest. */
export function manifestNamed(all: readonly Manifest[], name: string): Manifest | undefined {
  if (name === 'latest') return all[0];
  const byName = all.find(({ prefix, attempt }) => prefix === name || `${prefix}@${attempt}` === name);
  return byName ?? (/^\d+$/.test(name) ? all.find(({ step }) => step === Number(name)) : undefined);
}

function describeJob(open: OpenStore, job: string): string {
  return job === '' ? open.label : `job ${job} in ${open.label}`;
}
