/** `shoal status`: declaration. */
import { buildCommand } from '@stricli/core';
import type { ShoalContext } from '../../context.js';

export interface StatusFlags {
  readonly agent?: string;
  readonly dir?: string;
  readonly certs?: string;
  readonly cluster_token_file?: string;
  readonly json: boolean;
  readonly watch: boolean;
}

export const statusCommand = buildCommand<StatusFlags, [], ShoalContext>({
  loader: async () => (await import('./run.js')).runStatus,
  parameters: {
    flags: {
      agent: {
        kind: 'parsed',
        parse: String,
        optional: true,
        placeholder: 'host:port',
        brief: 'The agent of any task; several with commas, the first that answers counts',
      },
      dir: {
        kind: 'parsed',
        parse: String,
        optional: true,
        placeholder: 'dir',
        brief: 'The directory of a cluster that `shoal run` started; those in .shoal unless told',
      },
      certs: {
        kind: 'parsed',
        parse: String,
        optional: true,
        placeholder: 'dir',
        brief: 'A directory with the certificate of a task or of an operator',
      },
      cluster_token_file: {
        kind: 'parsed',
        parse: String,
        optional: true,
        placeholder: 'file',
        brief: 'A file with the cluster token; SHOAL_CLUSTER_TOKEN tells it too',
      },
      json: { kind: 'boolean', default: false, brief: 'Print as JSON', withNegated: false },
      watch: {
        kind: 'boolean',
        default: false,
        brief: 'Look again every second, until Ctrl-C',
        withNegated: false,
      },
    },
    aliases: { w: 'watch' },
  },
  docs: {
    brief: 'Show the tasks and steps of a running cluster',
    fullDescription:
      'Asks one task what it knows of the cluster. Which task: --agent; else the cluster that TF_CONFIG tells;\n' +
      'else the one that `shoal run` has started from this directory.\n' +
      '\n' +
      'Examples:\n' +
      '  shoal status\n' +
      '  shoal status --agent 10.0.0.5:2222 --certs certs --watch\n' +
      '  shoal status --json | jq .epoch',
  },
});
