/** `shoal certs`: declarations. */
import { buildCommand, buildRouteMap } from '@stricli/core';

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

const days = (text: string) => {
  const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  if (value >= 1 && value <= 36_500) return value;
  throw new RangeError('expected a number of days from 1 to 36500');
};

const dir = {
  kind: 'parsed',
  parse: String,
  default: 'certs',
  placeholder: 'dir',
  brief: 'The directory of the certificates',
} as const;

const initCommand = buildCommand<CertsInitFlags>({
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
      days: { kind: 'parsed', parse: days, default: '3650', brief: 'How long the authority lasts' },
    },
  },
  docs: {
    brief: 'Make the certificate authority of a cluster',
    fullDescription:
      'Makes ca.crt, which every task gets, and ca.key, which stays with whoever issues certificates.\n' +
      'Never overwrites anything.\n\nExample:\n  shoal certs init --dir certs',
  },
});

const issueCommand = buildCommand<CertsIssueFlags, [string]>({
  loader: async () => (await import('./run.js')).runCertsIssue,
  parameters: {
    flags: {
      dir,
      hosts: {
        kind: 'parsed',
        parse: String,
        optional: true,
        placeholder: 'list',
        brief: 'Names and addresses for clients that check them, with commas; Shoal’s own do not',
      },
      days: { kind: 'parsed', parse: days, default: '365', brief: 'How long the certificate lasts' },
    },
    positional: {
      kind: 'tuple',
      parameters: [
        {
          parse: String,
          placeholder: 'bearer',
          brief: 'A task (/job:ps/task:1), a job (ps), task for any task, or operator',
        },
      ],
    },
  },
  docs: {
    brief: 'Issue a certificate for a task, a job or an operator',
    fullDescription:
      'Issues a certificate signed by the authority in --dir. A task reads the directory given by --certs.\n' +
      'An operator may look (shoal status) and change checkpoints (shoal checkpoint), but speaks for no task.\n' +
      '\n' +
      'Examples:\n' +
      '  shoal certs issue /job:ps/task:1\n' +
      '  shoal certs issue worker --days 30\n' +
      '  shoal certs issue operator',
  },
});

export const certsCommands = buildRouteMap({
  routes: { init: initCommand, issue: issueCommand },
  docs: { brief: 'Make the certificates with which the tasks of a cluster know each other' },
});
