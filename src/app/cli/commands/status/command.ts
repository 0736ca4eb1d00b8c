/** Declares `shoal status`. */

import { PLACE_FLAGS } from '../../checkpoint/flags.js';
import { command } from '../../command.js';
import type { ShoalContext } from '../../context.js';
import { JSON_FLAG, optionalText, switchFlag } from '../../flags.js';

export interface StatusFlags {
  readonly agent?: string;
  readonly dir?: string;
  readonly certs?: string;
  readonly clusterTokenFile?: string;
  readonly json: boolean;
  readonly watch: boolean;
  readonly verbose: boolean;
}

export const statusCommand = command<StatusFlags, [], ShoalContext>({
  loader: async () => (await import('./run.js')).runStatus,
  parameters: {
    flags: {
      agent: optionalText(
        'The agent of any task; of a comma-separated list, the first that answers',
        'host:port',
      ),
      dir: optionalText(
        'The directory of a cluster that `shoal run` started; default: those in .shoal',
        'dir',
      ),
      certs: PLACE_FLAGS.certs,
      clusterTokenFile: PLACE_FLAGS.clusterTokenFile,
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
