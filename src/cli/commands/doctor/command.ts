/** `shoal doctor`: declaration. */
import { buildCommand } from '@stricli/core';

export interface DoctorFlags {
  readonly json: boolean;
}

export const doctorCommand = buildCommand<DoctorFlags>({
  loader: async () => (await import('./run.js')).runDoctor,
  parameters: {
    flags: {
      json: { kind: 'boolean', default: false, brief: 'Print the findings as JSON', withNegated: false },
    },
  },
  docs: {
    brief: 'Look at this machine and say what is wrong and how to mend it',
    fullDescription:
      'Checks the platform, Node, TensorFlow’s libraries, CPU, GPU, thread pool, disk, user namespaces and Python.\n' +
      'Loads no library. Exits with 0 when Shoal can run here, with 1 when something essential is wrong.',
  },
});
