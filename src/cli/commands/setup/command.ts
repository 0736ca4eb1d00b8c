/** `shoal setup`: declaration. */
import { buildCommand } from '@stricli/core';

export interface SetupFlags {
  readonly json: boolean;
}

export const setupCommand = buildCommand<SetupFlags>({
  loader: async () => (await import('./run.js')).runSetup,
  parameters: {
    flags: {
      json: {
        kind: 'boolean',
        default: false,
        brief: 'Print where the libraries are as JSON',
        withNegated: false,
      },
    },
  },
  docs: {
    brief: 'Fetch TensorFlow’s libraries into the per-user cache',
    fullDescription:
      'Fetches the pinned TensorFlow with pip and unpacks its libraries, unless they are there already.\n' +
      'SHOAL_TF_DIR names a folder with the libraries; SHOAL_TF=python takes those of the installed Python\n' +
      'TensorFlow; SHOAL_CACHE moves the cache; SHOAL_PYTHON names the Python to use.',
  },
});
