/** `shoal run`: declaration. */
import { buildCommand } from '@stricli/core';
import type { ShoalContext } from '../../context.js';

export interface RunFlags {
  readonly ps?: number;
  readonly workers?: number;
  readonly evaluator?: boolean;
  readonly dir?: string;
  readonly host: string;
  readonly restart: boolean;
  readonly maxRestarts: number;
  readonly wipe: boolean;
  readonly grace: number;
  readonly heartbeat_ms?: string;
  readonly dead_after_ms?: string;
  readonly insecure_network: boolean;
}

const whole = (least: number, most: number) => (text: string) => {
  const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  if (value >= least && value <= most) return value;
  throw new RangeError(`expected a whole number from ${least} to ${most}`);
};

export const runCommand = buildCommand<RunFlags, [string], ShoalContext>({
  loader: async () => (await import('./run.js')).runRunCommand,
  parameters: {
    flags: {
      ps: {
        kind: 'parsed',
        parse: whole(1, 1000),
        optional: true,
        placeholder: 'n',
        brief: 'How many parameter servers; 1 where only --workers is given',
      },
      workers: {
        kind: 'parsed',
        parse: whole(1, 1000),
        optional: true,
        placeholder: 'n',
        brief: 'How many workers, the chief (worker 0) included; 1 where only --ps is given',
      },
      evaluator: {
        kind: 'boolean',
        optional: true,
        brief: 'A task that evaluates every checkpoint; where the job says evaluate, unless told',
      },
      dir: {
        kind: 'parsed',
        parse: String,
        optional: true,
        placeholder: 'dir',
        brief: 'Where each task gets a directory. Default: .shoal/JOB',
      },
      host: { kind: 'parsed', parse: String, default: '127.0.0.1', brief: 'The address of the agents' },
      restart: { kind: 'boolean', default: true, brief: 'Relaunch a task that dies, at another port' },
      maxRestarts: {
        kind: 'parsed',
        parse: whole(0, 1_000_000),
        default: '5',
        placeholder: 'n',
        brief: 'Relaunches of one task in a row before the cluster gives up',
      },
      wipe: {
        kind: 'boolean',
        default: false,
        withNegated: false,
        brief: 'Relaunch with an empty directory, as on another machine',
      },
      grace: {
        kind: 'parsed',
        parse: whole(0, 86_400),
        default: '30',
        placeholder: 'seconds',
        brief: 'How long a task may take to stop before it is killed',
      },
      heartbeat_ms: {
        kind: 'parsed',
        parse: String,
        optional: true,
        placeholder: 'ms',
        brief: 'How often tasks say that they are alive',
      },
      dead_after_ms: {
        kind: 'parsed',
        parse: String,
        optional: true,
        placeholder: 'ms',
        brief: 'Silence after which a task counts as dead',
      },
      insecure_network: {
        kind: 'boolean',
        default: false,
        withNegated: false,
        brief: 'Allow a --host that other machines reach',
      },
    },
    positional: {
      kind: 'tuple',
      parameters: [
        { parse: String, placeholder: 'job.ts', brief: 'The file whose default export is the job' },
      ],
    },
  },
  docs: {
    brief: 'Run a job on this machine, in one process or as a cluster',
    fullDescription:
      'Runs a job on this machine. Without --ps and --workers it trains in one process. With them it is a\n' +
      'cluster: each task is a process with a directory of its own, as if it were a machine of its own.\n' +
      'Strangers cannot join: the agents ask for a token that is drawn for each run. TensorFlow’s own ports know\n' +
      'no token; on Linux they listen on the agents’ address (--host) only.\n' +
      'What stands after -- is for the job, in process.argv.\n' +
      '\n' +
      'A task that dies is relaunched at another port: try kill -9 with one of the process ids that are printed.\n' +
      'An error in the first seconds of a task is taken for one of the program and ends the cluster.\n' +
      'One Ctrl-C stops the workers, then the chief, then the ps; a second one stops all at once.\n' +
      'Exits with 0 when all workers finished, with 130 when stopped, else with the code of the task that failed.\n' +
      '\n' +
      'A job that says evaluate has an evaluator besides: it evaluates every checkpoint and, when training is over, the\n' +
      'last one. Its summaries are in evaluator-0/eval, the best checkpoints in evaluator-0/best. If it fails, training\n' +
      'goes on, and its code is that of the whole.\n' +
      '\n' +
      'Examples:\n' +
      '  shoal run job.ts\n' +
      '  shoal run job.ts --ps 2 --workers 3\n' +
      '  shoal run job.ts --ps 2 --workers 3 --no-evaluator\n' +
      '  shoal run job.ts --ps 2 --workers 3 --wipe --dir /tmp/experiment -- --learning-rate 0.1',
  },
});
