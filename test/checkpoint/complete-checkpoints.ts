/** Asserts that every checkpoint that a cluster lists is complete. */
import { expect } from 'vitest';
import type { Manifest } from '../../src/distributed/checkpoint/format/manifest.js';
import type { TestCluster } from './test-cluster.js';

/** Restores every listed checkpoint: each must have the values of its step. */
export async function completeCheckpoints(cluster: TestCluster): Promise<readonly Manifest[]> {
  const chief = cluster.chief();
  const manifests = await chief.list();
  for (const manifest of manifests) {
    await cluster.set(777_777);
    await chief.restore(manifest, { variables: cluster.variables });
    expect(await cluster.step()).toBe(manifest.step);
  }
  return manifests;
}
