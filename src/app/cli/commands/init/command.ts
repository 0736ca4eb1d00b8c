/** Declares `shoal init`. */
import { buildCommand } from '@stricli/core';

export const initCommand = buildCommand<Record<never, never>, [string]>({
  loader: async () => (await import('./run.js')).runInit,
  parameters: {
    flags: {},
    positional: {
      kind: 'tuple',
      parameters: [{ parse: String, placeholder: 'name', brief: 'The directory to create' }],
    },
  },
  docs: {
    brief: 'Create a project with a job',
    fullDescription:
      'Creates a directory with a job in TypeScript that runs after `npm install`, in one process or on a cluster.\n' +
      'The directory must not exist, or be empty.\n' +
      '\n' +
      'Example:\n' +
      '  shoal init my-model && cd my-model && npm install && npm start',
  },
});
