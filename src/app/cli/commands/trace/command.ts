/** Declares `shoal trace`. */
import { command } from '../../command.js';
import type { ShoalContext } from '../../context.js';
import { integer } from '../../flags.js';
import { RUNNING_FLAGS, type RunningFlags } from '../../running-flags.js';

export interface TraceFlags extends RunningFlags {
  readonly steps: number;
  readonly timeout: number;
  readonly out: string;
}

export const traceCommand = command<TraceFlags, [], ShoalContext>({
  loader: async () => (await import('./run.js')).runTrace,
  parameters: {
    flags: {
      ...RUNNING_FLAGS,
      steps: {
        kind: 'parsed',
        parse: integer(1, 100_000),
        default: '20',
        placeholder: 'n',
        brief: 'Trace until every worker has made so many steps',
      },
      timeout: {
        kind: 'parsed',
        parse: integer(1, 600),
        default: '60',
        placeholder: 'secs',
        brief: 'Trace at most so long; what there is until then is written',
      },
      out: {
        kind: 'parsed',
        parse: String,
        default: 'shoal-trace.json',
        placeholder: 'file',
        brief: 'The file to write; an existing one is replaced',
      },
    },
  },
  docs: {
    brief: 'Record what the tasks of a running cluster do, for Perfetto or chrome://tracing',
    fullDescription:
      'Asks every task of the cluster for its steps and runs, the stages that it executes, what they wait for, and the\n' +
      'tensors that it sends and receives, until every worker has made some steps. The file shows a process for each task;\n' +
      'open it at https://ui.perfetto.dev, which reads it in the browser, or at chrome://tracing. Ctrl-C ends the trace and\n' +
      'writes what there is. A task that does not answer is named and left out.\n' +
      'The clocks of the hosts are not trusted: times are aligned by the messages between the tasks, and the name of each\n' +
      'process says how exactly.\n' +
      'With engine grpc TensorFlow executes the steps: use ProfilerHook.\n' +
      '\n' +
      'Examples:\n' +
      '  shoal trace\n' +
      '  shoal trace --steps 100 --out slow.json\n' +
      '  shoal trace --agent 10.0.0.5:2222 --cluster-token-file token',
  },
});
