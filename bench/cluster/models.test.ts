/** Every model of the cluster benchmark makes steps, and Python's has the same variables, placement and updates. */
import { existsSync } from 'node:fs';
import { expect, test } from 'vitest';
import { MODELS } from './models.js';
import { type RunningCluster, startCluster } from './run-cluster.js';

// Benchmarks measure the build; .ci/run makes it before it runs tests.
const isBuilt = existsSync(new URL('../../dist/bundle/index.js', import.meta.url));

test.skipIf(!isBuilt).each(MODELS.map(({ id }) => id))(
  '%s is the same model on both sides',
  async (model) => {
    const settings = { model, inflight: 1, checkpoints: true, warm: 0, seconds: 0.5 };
    const run = { program: 'cluster', ps: 2, workers: 1, settings };
    await using python = await startCluster({ side: 'python', ...run });
    await using shoal = await startCluster({ side: 'shoal', ...run });
    const [theirs, [ours, rate]] = await Promise.all([python.model(), trained(shoal)]);
    expect(JSON.parse(ours)).toEqual(JSON.parse(theirs));
    expect(rate).toBeGreaterThan(0);
  },
);

async function trained(cluster: RunningCluster): Promise<[model: string, rate: number]> {
  const model = await cluster.model();
  await cluster.warm();
  return [model, (await cluster.measure()).rate];
}
