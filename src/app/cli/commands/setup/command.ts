/** Declares `shoal setup`. */
import { command } from '../../command.js';
import { switchFlag } from '../../flags.js';

export interface SetupFlags {
  readonly json: boolean;
}

export const setupCommand = command<SetupFlags>({
  loader: async () => (await import('./run.js')).runSetup,
  parameters: { flags: { json: switchFlag('Print the location of the libraries as JSON') } },
  docs: {
    brief: 'Fetch TensorFlow’s libraries into the per-user cache',
    fullDescription:
      'Fetches the pinned TensorFlow with pip and unpacks its libraries, unless they are installed already.\n' +
      'SHOAL_TF_DIR: a folder with the libraries. SHOAL_TF=python: use the libraries of the installed Python\n' +
      'TensorFlow. SHOAL_CACHE: the cache folder. SHOAL_PYTHON: the Python to use.',
  },
});
