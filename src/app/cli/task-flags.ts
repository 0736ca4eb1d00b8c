/**
 * The flags that configure a task, for every command that accepts them. TensorFlow 1's spelling, with _ instead of -, is
 * accepted too.
 */
import { optionalText as text } from './flags.js';

export const TASK_FLAGS = {
  jobName: text('The job of this task: chief, worker, ps or evaluator', 'job'),
  taskIndex: text('The index of this task in its job, from 0', 'n'),
  psHosts: text('Agent addresses of the ps, as host:port,host:port', 'list'),
  workerHosts: text(
    'Agent addresses of the workers; worker 0 is the chief if --chief-hosts is not given',
    'list',
  ),
  chiefHosts: text('Agent address of the chief', 'address'),
  evaluatorHosts: text('Agent address of the evaluator', 'address'),
  config: text('A JSON file with any of these settings', 'file'),
  clusterName: text('Tasks of clusters with different names refuse each other', 'name'),
  listen: text('Where the agent listens; default: its address in the cluster', 'address'),
  engine: text('What executes steps: direct or grpc; default: that of the job, else direct', 'engine'),
  tfPort: text('The port of the TensorFlow server, with engine grpc; default: any free port', 'port'),
  certs: text('The directory that `shoal certs` wrote; agents then use mutual TLS', 'dir'),
  clusterTokenFile: text('A file with the token that all tasks of the cluster share', 'file'),
  insecureNetwork: {
    kind: 'boolean',
    brief: 'With engine grpc: accept that anyone who can reach this machine can use TensorFlow’s ports',
    optional: true,
    withNegated: false,
  },
  heartbeatMs: text('Interval between heartbeats; default: 500', 'ms'),
  deadAfterMs: text('Silence after which a task is considered dead', 'ms'),
  lostWorkerMs: text(
    'How long a ps without live workers waits for dead ones to return; default: 300000',
    'ms',
  ),
  graceSecs: text('How long a ps waits for a save after SIGTERM or SIGINT; default: 30', 'seconds'),
  elastic: {
    kind: 'boolean',
    brief: 'Join as a worker that the cluster does not list, for a job with train.elastic',
    optional: true,
    withNegated: false,
  },
} as const;

export interface TaskFlags {
  readonly jobName?: string;
  readonly taskIndex?: string;
  readonly psHosts?: string;
  readonly workerHosts?: string;
  readonly chiefHosts?: string;
  readonly evaluatorHosts?: string;
  readonly config?: string;
  readonly clusterName?: string;
  readonly listen?: string;
  readonly engine?: string;
  readonly tfPort?: string;
  readonly certs?: string;
  readonly clusterTokenFile?: string;
  readonly insecureNetwork?: boolean;
  readonly heartbeatMs?: string;
  readonly deadAfterMs?: string;
  readonly lostWorkerMs?: string;
  readonly graceSecs?: string;
  readonly elastic?: boolean;
}

/** Converts the flags to the arguments that `resolveConfig` parses. */
export function taskArguments(flags: TaskFlags): readonly string[] {
  return Object.keys(TASK_FLAGS).flatMap((name) => {
    const value = flags[name as keyof TaskFlags];
    return value === undefined
      ? []
      : [`--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}=${value}`];
  });
}
