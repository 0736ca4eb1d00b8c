/**
 * Sparse FTRL, the model of scenario 001. First on a cluster of 2 ps and 2 workers that reads TFRecord files: examples
 * per second and memory. Then single steps in one process, on tables of 3 and of 30 million rows.
 *
 * `--only=cluster|step`; default: both. For the cluster `--features=30000000`, `--records=200000`, `--turns=15`,
 * `--inflight=3`; these are the defaults. `--engine=direct|grpc` for one engine only.
 */
import type { Benchmark } from './harness.js';
import { clusterRows } from './sparse-ftrl/cluster.js';
import { stepRows } from './sparse-ftrl/step.js';

export const benchmark: Benchmark = {
  name: 'sparse-ftrl',
  about: 'sparse FTRL, 2 columns, batches of 1000 × 50 ids',
  async run(report, log, flags) {
    const only = flags.get('only');
    if (only !== 'step') await clusterRows(report, log, flags);
    if (only !== 'cluster') await stepRows(report, log);
  },
};
