/** Declares `shoal run`. */

import type { LogLevel } from '../../../../base/text/log.js';
import { command } from '../../command.js';
import type { ShoalContext } from '../../context.js';
import { RUN_EXIT_CODES } from '../../exit-codes.js';
import { integer, JOB_FLAGS, LOG_LEVEL_FLAG, optionalText, switchFlag } from '../../flags.js';
import { TASK_FLAGS } from '../../task-flags.js';

export interface RunFlags {
  readonly ps?: number;
  readonly workers?: number;
  readonly evaluator?: boolean;
  readonly dir?: string;
  readonly fresh: boolean;
  readonly lastStep?: number;
  readonly set?: readonly string[];
  readonly host: string;
  readonly restart: boolean;
  readonly maxRestarts: number;
  readonly wipe: boolean;
  readonly json: boolean;
  readonly logLevel?: LogLevel;
  readonly grace: number;
  readonly engine?: string;
  readonly heartbeatMs?: string;
  readonly deadAfterMs?: string;
  readonly insecureNetwork: boolean;
}

export const runCommand = command<RunFlags, [string], ShoalContext>({
  loader: async () => (await import('./run.js')).runJobCommand,
  rest: true,
  parameters: {
    flags: {
      ps: {
        kind: 'parsed',
        parse: integer(1, 1000),
        optional: true,
        placeholder: 'n',
        brief: 'The number of parameter servers; default: 1 if --workers is given',
      },
      workers: {
        kind: 'parsed',
        parse: integer(1, 1000),
        optional: true,
        placeholder: 'n',
        brief: 'The number of workers, including the chief (worker 0); default: 1 if --ps is given',
      },
      evaluator: {
        kind: 'boolean',
        optional: true,
        brief: 'Start a task that evaluates every checkpoint; default: if the job defines `evaluate`',
      },
      dir: optionalText('The parent of the tasks’ directories; default: .shoal/JOB', 'dir'),
      fresh: switchFlag('Start over: keep the former run in a subdirectory and do not resume from it'),
      ...JOB_FLAGS,
      host: { kind: 'parsed', parse: String, default: '127.0.0.1', brief: 'The address of the agents' },
      restart: { kind: 'boolean', default: true, brief: 'Restart a task that dies, at another port' },
      maxRestarts: {
        kind: 'parsed',
        parse: integer(0, 1_000_000),
        default: '5',
        placeholder: 'n',
        brief: 'Consecutive restarts of one task before the cluster stops',
      },
      json: switchFlag('Print events as JSON objects, one per line: docs/events.schema.json describes them'),
      logLevel: LOG_LEVEL_FLAG,
      wipe: switchFlag('Restart a task with an empty directory, as on another machine'),
      grace: {
        kind: 'parsed',
        parse: integer(0, 86_400),
        default: '30',
        placeholder: 'seconds',
        brief: 'Seconds a task may take to stop before it is killed',
      },
      engine: TASK_FLAGS.engine,
      heartbeatMs: TASK_FLAGS.heartbeatMs,
      deadAfterMs: TASK_FLAGS.deadAfterMs,
      insecureNetwork: switchFlag('Allow a --host that other machines can reach, with engine grpc'),
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
      'Runs a job on this machine. Without --ps and --workers it trains in one process. With them it starts a\n' +
      'cluster: each task is a process with its own directory, as if it were a separate machine.\n' +
      'Agents accept only tasks with a random token that is created for each run. With --engine=grpc TensorFlow opens\n' +
      'ports without authentication; on Linux they listen on the agents’ address (--host) only.\n' +
      'Arguments after -- are passed to the job in process.argv.\n' +
      '\n' +
      'A job with checkpoints resumes from the newest one. If that is at its last step, is exported and, by the evaluator,\n' +
      'evaluated, the job is finished and nothing is started: train further with --last-step, or start over with --fresh,\n' +
      'which deletes nothing.\n' +
      '\n' +
      'A task that dies is restarted at another port: try kill -9 with one of the printed process ids.\n' +
      'An error in the first 30 seconds of a task is treated as a bug in the program and ends the cluster.\n' +
      'One Ctrl-C stops the workers, then the chief, then the ps; a second one kills all tasks.\n' +
      '\n' +
      'A job that defines `evaluate` also gets an evaluator task. It evaluates every checkpoint, including the last one.\n' +
      'Its summaries are in evaluator-0/eval, the best checkpoints in evaluator-0/best. If it fails, training continues,\n' +
      'and the cluster exits with its code.\n' +
      '\n' +
      `${RUN_EXIT_CODES}\n` +
      'A cluster exits with 0 when all workers are done, otherwise with the code of the task that failed.\n' +
      '\n' +
      'Examples:\n' +
      '  shoal run job.ts\n' +
      '  shoal run job.ts --ps 2 --workers 3\n' +
      '  shoal run job.ts --ps 2 --workers 3 --no-evaluator\n' +
      '  shoal run job.ts --last-step 20000 --set rate=0.01\n' +
      '  shoal run job.ts --ps 2 --workers 3 --wipe --dir /tmp/experiment -- --learning-rate 0.1',
  },
});
