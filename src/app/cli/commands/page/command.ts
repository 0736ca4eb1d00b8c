/** Declares `shoal page`. */
import { PLACE_FLAGS } from '../../checkpoint/flags.js';
import { command } from '../../command.js';
import type { ShoalContext } from '../../context.js';
import { integer, optionalText } from '../../flags.js';

export interface PageFlags {
  readonly agent?: string;
  readonly certs?: string;
  readonly clusterTokenFile?: string;
  readonly port: number;
}

export const pageCommand = command<PageFlags, string[], ShoalContext>({
  loader: async () => (await import('./run.js')).runPage,
  parameters: {
    flags: {
      agent: optionalText('The agent of any task of a running cluster', 'host:port'),
      certs: PLACE_FLAGS.certs,
      clusterTokenFile: PLACE_FLAGS.clusterTokenFile,
      port: {
        kind: 'parsed',
        parse: integer(0, 65_535),
        default: '0',
        placeholder: 'port',
        brief: 'The port of the page of a job that does not run; 0: a free one',
      },
    },
    positional: {
      kind: 'array',
      parameter: {
        parse: String,
        placeholder: 'dir',
        brief: 'Directories of jobs, side by side; default: the cluster that runs in .shoal',
      },
    },
  },
  docs: {
    brief: 'Show where the page of a cluster is, or serve that of a job that does not run',
    fullDescription:
      'Every task of a running job serves a page that shows the whole cluster: tasks, curves, checkpoints, what has\n' +
      'happened, and the logs. For a running cluster this command prints the addresses of the page, and the code that it\n' +
      'asks for: that of --agent, or of the cluster in TF_CONFIG, or of the one that `shoal run` started.\n' +
      'The code opens the page and nothing else; the token of the cluster works too.\n' +
      '\n' +
      'For the directory of a job that does not run it serves the page itself, on loopback, until Ctrl-C: curves from the\n' +
      'event files, checkpoints from the manifests and the files of the tasks in it. Of several directories, or that of a\n' +
      'sweep, it shows the curves side by side. It follows the files of a job in one process while that runs.\n' +
      '\n' +
      'Examples:\n' +
      '  shoal page\n' +
      '  shoal page .shoal/mnist\n' +
      '  shoal page .shoal/mnist-sweep\n' +
      '  shoal page runs/a runs/b\n' +
      '  shoal page --agent 10.0.0.5:2222 --cluster-token-file token',
  },
});
