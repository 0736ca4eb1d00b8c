/** `shoal config`: declaration. */
import { buildCommand } from '@stricli/core';
import { TASK_FLAGS, type TaskFlags } from '../../task-flags.js';

export interface ConfigFlags extends TaskFlags {
  readonly json: boolean;
}

export const configCommand = buildCommand<ConfigFlags>({
  loader: async () => (await import('./run.js')).runConfig,
  parameters: {
    flags: {
      ...TASK_FLAGS,
      json: { kind: 'boolean', default: false, brief: 'Print as JSON', withNegated: false },
    },
  },
  docs: {
    brief: 'Print a task’s configuration and where each value came from',
    fullDescription:
      'Prints what `shoal task` would go by: flags over environment over config file, value by value.\n' +
      'The cluster token is never shown, only whether there is one.\n' +
      '\n' +
      'Examples:\n' +
      '  shoal config\n' +
      '  shoal config --job_name=ps --task_index=0 --ps_hosts=a:2222 --worker_hosts=b:2222 --json',
  },
});
