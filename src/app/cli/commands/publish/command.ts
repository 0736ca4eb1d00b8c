/** Declares `shoal publish`. */
import { command } from '../../command.js';
import type { ShoalContext } from '../../context.js';
import { integer, JSON_FLAG, optionalText, switchFlag } from '../../flags.js';

export interface PublishFlags {
  readonly to: string;
  readonly version?: number;
  readonly model?: string;
  readonly deadline: number;
  readonly rollback: boolean;
  readonly skipAbsent: boolean;
  readonly tokenFile?: string;
  readonly certs?: string;
  readonly json: boolean;
}

export const publishCommand = command<PublishFlags, [string?], ShoalContext>({
  loader: async () => (await import('./run.js')).runPublish,
  parameters: {
    flags: {
      to: {
        kind: 'parsed',
        parse: String,
        placeholder: 'list',
        brief: 'Where serving processes accept versions (shoal serve --publish_port), as host:port,host:port',
      },
      version: {
        kind: 'parsed',
        parse: integer(0, Number.MAX_SAFE_INTEGER),
        optional: true,
        placeholder: 'n',
        brief: 'The version; default: the newest in DIR, or the name of DIR',
      },
      model: optionalText('The model; default: the only one that the processes serve', 'name'),
      deadline: {
        kind: 'parsed',
        parse: integer(1, 1e6),
        default: '600',
        placeholder: 'seconds',
        brief: 'After so long nothing is changed',
      },
      rollback: switchFlag('Return to the version before the newest one'),
      skipAbsent: switchFlag('Publish without processes that do not answer, instead of waiting for them'),
      tokenFile: optionalText('A file with the token of the processes; default: SHOAL_PUBLISH_TOKEN', 'file'),
      certs: optionalText(
        'A directory with the certificate of an operator; the processes use TLS then',
        'dir',
      ),
      json: JSON_FLAG,
    },
    positional: {
      kind: 'tuple',
      parameters: [
        {
          parse: String,
          placeholder: 'dir',
          optional: true,
          brief: 'A version, or the directory of versions, of which the newest is published',
        },
      ],
    },
  },
  docs: {
    brief: 'Publish a version to serving processes on other machines, or roll them back',
    fullDescription:
      'Sends a version to all processes, which verify, load and warm it. When all have, all switch to it. If one cannot,\n' +
      'or the deadline passes, none does: nothing has changed then. To publish the same version again changes nothing.\n' +
      'A process that is lost while the others switch gets the version when it returns, until the deadline; the exit code\n' +
      'is 1 if one still lacks it.\n' +
      'After a rollback the version stays hidden on the disks. It does not come back; a newer one replaces it.\n' +
      '\n' +
      'Examples:\n' +
      '  shoal publish export --to 10.0.0.7:8502,10.0.0.8:8502 --token_file token\n' +
      '  shoal publish export/1789 --to 10.0.0.7:8502 --certs certs --deadline 120\n' +
      '  shoal publish --rollback --to 10.0.0.7:8502,10.0.0.8:8502 --token_file token',
  },
});
