/** Declares `shoal status`. */

import { command } from '../../command.js';
import type { ShoalContext } from '../../context.js';
import { JSON_FLAG, switchFlag } from '../../flags.js';
import { RUNNING_FLAGS, type RunningFlags } from '../../running-flags.js';

export interface StatusFlags extends RunningFlags {
  readonly json: boolean;
  readonly watch: boolean;
  readonly verbose: boolean;
}

export const statusCommand = command<StatusFlags, [], ShoalContext>({
  loader: async () => (await import('./run.js')).runStatus,
  parameters: {
    flags: {
      ...RUNNING_FLAGS,
      json: JSON_FLAG,
      watch: switchFlag('Refresh every second, until Ctrl-C'),
      verbose: switchFlag('Also show addresses, incarnations and the epoch'),
    },
    aliases: { w: 'watch', V: 'verbose' },
  },
  docs: {
    brief: 'Show the tasks and steps of a running cluster, or the step of a job in one process',
    fullDescription:
      'Queries one task for the state of the cluster: the task at --agent; otherwise one of the cluster in TF_CONFIG;\n' +
      'otherwise one of the cluster that `shoal run` started in this directory. For a job that `shoal run` trains in one\n' +
      'process it shows the step.\n' +
      'restarts: how often the task has been started again. last seen: the time since it was last heard from.\n' +
      'suspect: it does not answer at the moment. busy: its process runs, but its main thread is blocked. dead: it has not answered for dead_after_ms.\n' +
      '\n' +
      'Examples:\n' +
      '  shoal status\n' +
      '  shoal status --agent 10.0.0.5:2222 --certs certs --watch\n' +
      '  shoal status --json | jq .epoch',
  },
});
