/** Declares `shoal doctor`. */
import { command } from '../../command.js';
import { JSON_FLAG } from '../../flags.js';

export interface DoctorFlags {
  readonly json: boolean;
}

export const doctorCommand = command<DoctorFlags>({
  loader: async () => (await import('./run.js')).runDoctor,
  parameters: { flags: { json: JSON_FLAG } },
  docs: {
    brief: 'Check this machine and report problems and how to fix them',
    fullDescription:
      'Checks the platform, Node, TensorFlow’s libraries, checksums, CPU, GPU, thread pool, disk, user namespaces and Python.\n' +
      'Loads no library. Exits with 0 if Shoal can run here, with 1 if it cannot.',
  },
});
