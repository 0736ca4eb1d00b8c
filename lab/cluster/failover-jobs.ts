/** The jobs of the failover cluster: scenario 000's, plain or with leased input, and scenario 001's, scaled down. */
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { writeSparseExamples } from '../../examples/sparse-linear/sparse-examples.js';
import type { FailoverJob } from './failover-cluster.js';
import { BATCH, pointFiles, TABLES } from './points.js';

const FEATURES = 100_000;
const SPARSE_BATCH = 200;

export const LINE: FailoverJob = { name: 'failover', program: 'lab/programs/failover-job.ts' };

export const LEASED: FailoverJob = {
  ...LINE,
  flags: ['--leased'],
  batch: BATCH,
  tables: TABLES,
  data: pointFiles,
};

export const SPARSE: FailoverJob = {
  name: 'sparse-linear',
  program: 'lab/programs/sparse-job.ts',
  batch: SPARSE_BATCH,
  flags: [
    ...['--features', String(FEATURES)],
    ...['--batch', String(SPARSE_BATCH)],
    ...['--epochs', '1000000'],
    ...['--save-secs', '1'],
  ],
  data: sparseFiles,
};

async function sparseFiles(): Promise<ReadonlyMap<string, Buffer>> {
  const directory = await mkdtemp(join(tmpdir(), 'shoal-sparse-'));
  try {
    const options = { prefix: 'train', records: 20_000, files: 2, features: FEATURES, idsPerRecord: 20 };
    await writeSparseExamples({ directory, ...options });
    const names = await readdir(directory);
    const read = async (name: string) => [name, await readFile(join(directory, name))] as const;
    return new Map(await Promise.all(names.map(read)));
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}
