/**
 * Scenario 001: very many sparse features over m ps, five workers, files on each worker's own disk. The classic program
 * trains to the end of its epochs and saves meanwhile, resumes with another m, is interrupted, and resumes again; then
 * the same as a job.
 */
import type { Experiment } from '../experiment.js';
import { sparseClassic } from '../scenarios/sparse-classic.js';
import { sparseJob } from '../scenarios/sparse-job.js';

/** Weights and two slots in float32, on two tasks each, in the checkpoints that are kept and the one being written. */
const BYTES_PER_FEATURE = 3 * 4 * 2 * 6;

const PARTS = { classic: sparseClassic, job: sparseJob } as const;

export const experiment: Experiment = {
  name: '001',
  description: 'scenario 001: a sparse model over m ps trains, saves, and is restored with another m',
  flags: {
    ps: { type: 'string', default: '2', description: 'how many ps' },
    workers: { type: 'string', default: '5', description: 'how many workers' },
    features: {
      type: 'string',
      default: '1000000',
      description: 'rows of the weights; 30000000 is the real size',
    },
    records: { type: 'string', default: '30000', description: 'records on each worker' },
    epochs: { type: 'string', default: '2', description: 'how often each worker reads its records' },
    next: {
      type: 'string',
      description: 'how many ps to restore with; default: one more than --ps, 1 after 3',
    },
    'save-secs': { type: 'string', default: '10', description: 'seconds between checkpoints' },
    parts: { type: 'string', default: Object.keys(PARTS).join(), description: 'which parts to run' },
    logs: { type: 'string', description: "a directory for each task's output" },
  },
  needs: {
    isolation: 'waivable',
    python: true,
    diskBytes: ({ features }) => 1e9 + Number(features) * BYTES_PER_FEATURE,
  },
  async run(ctx) {
    for (const part of String(ctx.flags.parts).split(',')) {
      if (!(part in PARTS))
        throw new Error(`there is no part ${part}: there are ${Object.keys(PARTS).join()}`);
      await PARTS[part as keyof typeof PARTS](ctx);
    }
  },
};
