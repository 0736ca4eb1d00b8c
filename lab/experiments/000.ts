/**
 * Scenario 000: two ps, three workers, separate disks. The classic program trains, saves, is restarted, resumes and is
 * interrupted; then the same as a job; then variants.
 */
import type { Experiment } from '../experiment.js';
import { classicProgram } from '../scenarios/line-classic.js';
import { jobProgram } from '../scenarios/line-job.js';
import { variants } from '../scenarios/line-variants.js';

const PARTS = { classic: classicProgram, job: jobProgram, variants } as const;

export const experiment: Experiment = {
  name: '000',
  description: 'scenario 000: 2 ps + 3 workers train, save, stop, resume; Python reads the checkpoints',
  flags: {
    steps: { type: 'string', default: '50000', description: 'the last step of the classic program' },
    'job-steps': { type: 'string', default: '5000', description: 'the last step of the job' },
    'few-steps': { type: 'string', default: '300', description: 'the last step of each variant' },
    'save-secs': { type: 'string', default: '10', description: 'seconds between checkpoints' },
    ps: { type: 'string', default: '2', description: 'how many ps' },
    workers: { type: 'string', default: '3', description: 'how many workers' },
    parts: { type: 'string', default: Object.keys(PARTS).join(), description: 'which parts to run' },
    logs: { type: 'string', description: "a directory for each task's output" },
  },
  needs: { isolation: 'waivable', python: true, diskBytes: 1e9 },
  async run(ctx) {
    for (const part of String(ctx.flags.parts).split(',')) {
      if (!(part in PARTS))
        throw new Error(`there is no part ${part}: there are ${Object.keys(PARTS).join()}`);
      await PARTS[part as keyof typeof PARTS](ctx);
    }
  },
};
