/** The flags that name a running cluster. */
import { PLACE_FLAGS } from './checkpoint/flags.js';
import { optionalText } from './flags.js';

export const RUNNING_FLAGS = {
  agent: optionalText(
    'The agent of any task; of a comma-separated list, the first that answers',
    'host:port',
  ),
  dir: optionalText('The directory of a cluster that `shoal run` started; default: those in .shoal', 'dir'),
  certs: PLACE_FLAGS.certs,
  clusterTokenFile: PLACE_FLAGS.clusterTokenFile,
} as const;

export interface RunningFlags {
  readonly agent?: string;
  readonly dir?: string;
  readonly certs?: string;
  readonly clusterTokenFile?: string;
}
