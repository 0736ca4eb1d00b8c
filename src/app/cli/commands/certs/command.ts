/** `shoal certs`: declarations. */
import { buildRouteMap } from '@stricli/core';
import { command } from '../../command.js';
import { integer, optionalText } from '../../flags.js';

export interface CertsInitFlags {
  readonly dir: string;
  readonly clusterName: string;
  readonly days: number;
}

export interface CertsIssueFlags {
  readonly dir: string;
  readonly hosts?: string;
  readonly days: number;
}

const days = integer(1, 36_500);

const dir = {
  kind: 'parsed',
  parse: String,
  default: 'certs',
  placeholder: 'dir',
  brief: 'The directory of the certificates',
} as const;

const initCommand = command<CertsInitFlags>({
  loader: async () => (await import('./run.js')).runCertsInit,
  parameters: {
    flags: {
      dir,
      clusterName: {
        kind: 'parsed',
        parse: String,
        default: 'shoal',
        placeholder: 'name',
        brief: 'The name in the authority’s certificate',
      },
      days: { kind: 'parsed', parse: days, default: '3650', brief: 'Validity of the authority in days' },
    },
  },
  docs: {
    brief: 'Create the certificate authority of a cluster',
    fullDescription:
      'Creates ca.crt, which every task needs, and ca.key, which only the issuer of certificates keeps.\n' +
      'Never overwrites a file.\n\nExample:\n  shoal certs init --dir certs',
  },
});

const issueCommand = command<CertsIssueFlags, [string]>({
  loader: async () => (await import('./run.js')).runCertsIssue,
  parameters: {
    flags: {
      dir,
      hosts: optionalText(
        'Host names and addresses in the certificate, comma-separated, for clients other than Shoal that check them',
        'list',
      ),
      days: { kind: 'parsed', parse: days, default: '365', brief: 'Validity of the certificate in days' },
    },
    positional: {
      kind: 'tuple',
      parameters: [
        {
          parse: String,
          placeholder: 'bearer',
          brief: 'A task (/job:ps/task:1), a job (ps), `task` for any task, `operator` or `serving`',
        },
      ],
    },
  },
  docs: {
    brief: 'Issue a certificate for a task, a job or an operator',
    fullDescription:
      'Issues a certificate signed by the authority in --dir. A task reads the directory given by --certs.\n' +
      'An operator can query the cluster (shoal status) and change checkpoints (shoal checkpoint), but not join as a task.\n' +
      'A serving machine (shoal serve --publish_certs) accepts versions, and can do nothing in the cluster.\n' +
      '\n' +
      'Examples:\n' +
      '  shoal certs issue /job:ps/task:1\n' +
      '  shoal certs issue worker --days 30\n' +
      '  shoal certs issue operator',
  },
});

export const certsCommands = buildRouteMap({
  routes: { init: initCommand, issue: issueCommand },
  docs: { brief: 'Create the certificates with which the tasks of a cluster authenticate each other' },
});
