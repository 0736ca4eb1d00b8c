/** Declares `shoal config`. */
import { command } from '../../command.js';
import { JSON_FLAG } from '../../flags.js';
import { TASK_FLAGS, type TaskFlags } from '../../task-flags.js';

export interface ConfigFlags extends TaskFlags {
  readonly json: boolean;
}

export const configCommand = command<ConfigFlags>({
  loader: async () => (await import('./run.js')).runConfig,
  parameters: {
    flags: { ...TASK_FLAGS, json: JSON_FLAG },
  },
  docs: {
    brief: 'Print a task’s configuration and the source of each value',
    fullDescription:
      'Prints the configuration that `shoal task` would use: flags override the environment, which overrides the config file.\n' +
      'The cluster token itself is never printed.\n' +
      '\n' +
      'Examples:\n' +
      '  shoal config\n' +
      '  shoal config --job-name=ps --task-index=0 --ps-hosts=a:2222 --worker-hosts=b:2222 --json',
  },
});
