/** Declares `shoal task`. */

import type { LogLevel } from '../../../../base/text/log.js';
import { command } from '../../command.js';
import type { ShoalContext } from '../../context.js';
import { EXIT_CODES } from '../../exit-codes.js';
import { JOB_FLAGS, LOG_LEVEL_FLAG, optionalText, switchFlag } from '../../flags.js';
import { TASK_FLAGS, type TaskFlags } from '../../task-flags.js';

export interface TaskCommandFlags extends TaskFlags {
  readonly dir?: string;
  readonly lastStep?: number;
  readonly set?: readonly string[];
  readonly json: boolean;
  readonly logLevel?: LogLevel;
}

export const taskCommand = command<TaskCommandFlags, [string], ShoalContext>({
  loader: async () => (await import('./run.js')).runTaskCommand,
  rest: true,
  parameters: {
    flags: {
      ...TASK_FLAGS,
      ...JOB_FLAGS,
      json: switchFlag('Print events as JSON objects, one per line: docs/events.schema.json describes them'),
      logLevel: LOG_LEVEL_FLAG,
      dir: optionalText(
        'The task’s own directory; default: .shoal/JOB/ROLE-INDEX, worker-0 without a cluster',
        'dir',
      ),
    },
    positional: {
      kind: 'tuple',
      parameters: [
        { parse: String, placeholder: 'job.ts', brief: 'The file whose default export is the job' },
      ],
    },
  },
  docs: {
    brief: 'Run one task of a job, configured by TF_CONFIG or by flags',
    fullDescription:
      'Runs one task of a job: a ps serves until the workers have left, a worker trains until the last step.\n' +
      'Flags override the environment (TF_CONFIG, SHOAL_*), which overrides the config file. Without a cluster it\n' +
      'trains in this process alone. Arguments after -- are passed to the job in process.argv.\n' +
      '\n' +
      'With --engine=grpc TensorFlow opens a port without authentication: anyone who can reach it can run any code. On\n' +
      'an address that other machines can reach, such a task starts only with --insecure-network or\n' +
      'SHOAL_INSECURE_NETWORK=1.\n' +
      '\n' +
      'SIGTERM (preemption) and SIGINT finish the step, return leases, save, leave the cluster and exit. After SIGTERM\n' +
      'the others wait for the task to be started again. A second signal exits immediately.\n' +
      '\n' +
      `${EXIT_CODES}\n` +
      '\n' +
      'Examples:\n' +
      '  shoal task job.ts --job-name=ps --task-index=0 --ps-hosts=a:2222 --worker-hosts=b:2222,c:2222\n' +
      '  TF_CONFIG=\'{"cluster":{"ps":["a:2222"],"worker":["b:2222"]},"task":{"type":"worker","index":0}}\' \\\n' +
      '    shoal task job.ts -- --learning-rate 0.1',
  },
});
