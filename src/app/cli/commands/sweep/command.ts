/** Declares `shoal sweep`. */
import { command } from '../../command.js';
import type { ShoalContext } from '../../context.js';
import { integer, JOB_FLAGS, optionalText, switchFlag } from '../../flags.js';

export interface SweepFlags {
  readonly set?: readonly string[];
  readonly parallel: number;
  readonly random?: number;
  readonly seed: number;
  readonly metric?: string;
  readonly mode?: 'min' | 'max';
  readonly ps?: number;
  readonly workers?: number;
  readonly lastStep?: number;
  readonly dir?: string;
  readonly grace: number;
  readonly json: boolean;
}

const count = (brief: string, max = 1000) =>
  ({ kind: 'parsed', parse: integer(1, max), optional: true, placeholder: 'n', brief }) as const;

export const sweepCommand = command<SweepFlags, [string], ShoalContext>({
  loader: async () => (await import('./run.js')).runSweepCommand,
  rest: true,
  parameters: {
    flags: {
      set: {
        kind: 'parsed',
        parse: String,
        variadic: true,
        optional: true,
        placeholder: 'name=a,b',
        brief: 'The values of a parameter that the job declares in `params`; repeat it for several',
      },
      parallel: {
        kind: 'parsed',
        parse: integer(1, 1000),
        default: '1',
        placeholder: 'n',
        brief: 'Trials that run at the same time',
      },
      random: count('Run so many trials, chosen at random from all combinations', 10_000),
      seed: {
        kind: 'parsed',
        parse: integer(0, 2 ** 32 - 1),
        default: '0',
        placeholder: 'n',
        brief: 'The seed of that choice; the same seed chooses the same trials',
      },
      metric: optionalText(
        'What to compare: loss, a metric of the evaluation such as eval/auc, or a scalar output; default: loss',
        'name',
      ),
      mode: {
        kind: 'enum',
        values: ['min', 'max'],
        optional: true,
        brief:
          'Whether less or more of it is better; default: max for accuracies, AUC, precision, recall and topK, else min',
      },
      ps: count('Run each trial as a cluster with so many parameter servers'),
      workers: count('Run each trial as a cluster with so many workers'),
      lastStep: JOB_FLAGS.lastStep,
      dir: optionalText('The parent of the trials’ directories; default: .shoal/JOB-sweep', 'dir'),
      grace: {
        kind: 'parsed',
        parse: integer(0, 86_400),
        default: '300',
        placeholder: 'seconds',
        brief: 'Seconds a trial may take to stop before it is killed',
      },
      json: switchFlag('Print events as JSON objects, one per line: docs/events.schema.json describes them'),
    },
    positional: {
      kind: 'tuple',
      parameters: [
        { parse: String, placeholder: 'job.ts', brief: 'The file whose default export is the job' },
      ],
    },
  },
  docs: {
    brief: 'Run a job with all combinations of some parameters',
    fullDescription:
      'Runs a job once for each combination of the values of its parameters, each time with `shoal run` in a directory of\n' +
      'its own, and prints a table, the best trial first. A comma in a value is written \\,\n' +
      'Arguments after -- are passed to the job in process.argv.\n' +
      '\n' +
      'A trial that fails does not stop the others. Ctrl-C saves and stops all trials; a second one kills them.\n' +
      'The same sweep, started again, does not repeat trials that are done; the others resume from their checkpoints.\n' +
      'The directory of a trial has its state in trial.json and everything it reported in events.jsonl.\n' +
      '\n' +
      'Exit codes:\n' +
      '  0    all trials are done\n' +
      '  1    a trial has failed\n' +
      '  2    wrong usage or configuration: no trial was started\n' +
      '  130  interrupted; the same command resumes\n' +
      '\n' +
      'Examples:\n' +
      '  shoal sweep job.ts --set rate=0.01,0.1 --set dim=8,16 --parallel 2\n' +
      '  shoal sweep job.ts --set rate=0.001,0.01,0.1 --set dim=8,16,32 --random 5 --seed 1\n' +
      '  shoal sweep job.ts --set rate=0.01,0.1 --metric eval/auc --mode max --ps 1 --workers 2',
  },
});
