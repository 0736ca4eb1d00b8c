/** Scenario 003: every task is killed at every moment, and launched again on the same or on another host. */
import { invalid } from '../../src/base/errors/errors.js';
import type { Experiment } from '../experiment.js';
import { failover, type Mode } from '../scenarios/failover.js';
import { CASES } from '../scenarios/failover-cases.js';

const MODES: readonly Mode[] = ['async', 'sync'];

export const experiment: Experiment = {
  name: '003',
  description: 'scenario 003: tasks are killed at every moment and launched again, also on other hosts',
  flags: {
    mode: { type: 'string', default: 'both', description: 'async, sync or both' },
    only: { type: 'string', description: 'the cases whose names contain this, such as save/chief/moved' },
    leased: {
      type: 'boolean',
      default: false,
      description: 'the workers lease records of files (async only)',
    },
    logs: { type: 'string', description: "a directory for each task's output" },
  },
  needs: { isolation: 'waivable' },
  async run(ctx) {
    const { mode, only = '', leased } = ctx.flags as Record<string, string>;
    const modes = MODES.filter((name) => mode === 'both' || mode === name);
    const cases = CASES.filter(({ name }) => name.includes(only));
    if (modes.length === 0) throw invalid('--mode must be async, sync or both');
    if (cases.length === 0)
      throw invalid(`there is no case '${only}'`, { hint: CASES.map(({ name }) => name).join(', ') });
    for (const name of modes) {
      if (leased && name === 'sync') continue;
      ctx.log(`${name}: ${cases.length} cases`);
      await failover(ctx, name, cases);
    }
  },
};
