/** Random faults against the jobs of scenarios 000 and 001: every burst is recovered from, and nothing is lost. */
import { invalid } from '../../src/base/errors/errors.js';
import type { FailoverJob } from '../cluster/failover-cluster.js';
import { LEASED, LINE, SPARSE } from '../cluster/failover-jobs.js';
import type { Experiment } from '../experiment.js';
import { burstsBetween } from '../soak/bursts.js';
import { KINDS } from '../soak/make-fault.js';
import { MODES, type Mode, soak } from '../soak/soak.js';

const JOBS: Readonly<Record<string, FailoverJob>> = { line: LINE, leased: LEASED, sparse: SPARSE };

export const experiment: Experiment = {
  name: 'soak',
  description:
    'random faults against 2 ps + 2 workers: tasks, disks, networks and clocks fail; all is recovered',
  flags: {
    faults: { type: 'string', default: '20', description: 'the number of the last fault of each job' },
    from: { type: 'string', default: '1', description: 'the number of the first fault' },
    seed: { type: 'string', description: 'the faults are a function of it (random)' },
    job: {
      type: 'string',
      default: 'both',
      description: 'line, leased (line with leased input), sparse or both',
    },
    mode: {
      type: 'string',
      default: 'async',
      description: 'async, or sync or deterministic, which run the line job only',
    },
    minutes: { type: 'string', description: 'no further fault begins after this time (none)' },
    kinds: { type: 'string', description: 'the kinds of faults, separated by commas (all)' },
    logs: { type: 'string', description: "a directory for each task's output" },
  },
  needs: { isolation: 'required' },
  async run(ctx) {
    const {
      job,
      mode,
      minutes = 'Infinity',
      kinds: only,
      faults,
      from,
      seed: given,
    } = ctx.flags as Record<string, string>;
    const seed = given === undefined ? Math.floor(Math.random() * 2 ** 31) : Number(given);
    if (!(Number(minutes) > 0)) throw invalid('--minutes must be a number above 0');
    if (![seed, Number(faults), Number(from)].every(Number.isSafeInteger))
      throw invalid('--seed, --faults and --from must be integers');
    if (!Object.keys(MODES).includes(mode as string))
      throw invalid(`--mode must be one of ${Object.keys(MODES).join(', ')}`);
    const { sync } = MODES[mode as Mode];
    const kinds = only?.split(',') as typeof KINDS | undefined;
    if (!(kinds ?? []).every((kind) => KINDS.includes(kind)))
      throw invalid(`--kinds must be of ${KINDS.join(', ')}`);
    const names = Object.keys(JOBS).filter(
      (name) => job === name || (job === 'both' && !(sync && name !== 'line')),
    );
    if (names.length === 0) throw invalid(`--job must be ${Object.keys(JOBS).join(', ')} or both`);
    // Leased input is for asynchronous training.
    if (sync && names.some((name) => name !== 'line')) throw invalid(`--mode ${mode} runs the job line only`);
    const engine = ctx.flags.engine === undefined ? '' : ` --engine ${ctx.flags.engine}`;
    for (const name of names) {
      ctx.log(`job ${name}, ${mode}${engine}, seed ${seed}, faults ${from} to ${faults}`);
      await soak(ctx, {
        job: JOBS[name]!,
        mode: mode as Mode,
        minutes: Number(minutes),
        bursts: burstsBetween(seed, Number(from), Number(faults), kinds),
        replay: (first, last) =>
          `npm run lab -- soak --job ${name} --mode ${mode}${engine}${only ? ` --kinds ${only}` : ''} --seed ${seed} --from ${first} --faults ${last}`,
      });
    }
  },
};
