/** The flags that configure a task, under TensorFlow's own names, for every command that accepts them. */
import { optionalText as text } from './flags.js';

export const TASK_FLAGS = {
  job_name: text('The job of this task: chief, worker, ps or evaluator', 'job'),
  task_index: text('The index of this task in its job, from 0', 'n'),
  ps_hosts: text('Agent addresses of the ps, as host:port,host:port', 'list'),
  worker_hosts: text(
    'Agent addresses of the workers; worker 0 is the chief if --chief_hosts is not given',
    'list',
  ),
  chief_hosts: text('Agent address of the chief', 'address'),
  evaluator_hosts: text('Agent address of the evaluator', 'address'),
  config: text('A JSON file with any of these settings', 'file'),
  cluster_name: text('Tasks of clusters with different names refuse each other', 'name'),
  listen: text('Where the agent listens; default: its address in the cluster', 'address'),
  engine: text('What executes steps: direct or grpc; default: that of the job, else grpc', 'engine'),
  tf_port: text('The port of the TensorFlow server, with engine grpc; default: any free port', 'port'),
  certs: text('The directory that `shoal certs` wrote; agents then use mutual TLS', 'dir'),
  cluster_token_file: text('A file with the token that all tasks of the cluster share', 'file'),
  insecure_network: {
    kind: 'boolean',
    brief: 'Accept that anyone who can reach this machine can use TensorFlow’s ports',
    optional: true,
    withNegated: false,
  },
  heartbeat_ms: text('Interval between heartbeats; default: 500', 'ms'),
  dead_after_ms: text('Silence after which a task is considered dead', 'ms'),
  lost_worker_ms: text(
    'How long a ps without live workers waits for dead ones to return; default: 300000',
    'ms',
  ),
} as const;

export interface TaskFlags {
  readonly job_name?: string;
  readonly task_index?: string;
  readonly ps_hosts?: string;
  readonly worker_hosts?: string;
  readonly chief_hosts?: string;
  readonly evaluator_hosts?: string;
  readonly config?: string;
  readonly cluster_name?: string;
  readonly listen?: string;
  readonly engine?: string;
  readonly tf_port?: string;
  readonly certs?: string;
  readonly cluster_token_file?: string;
  readonly insecure_network?: boolean;
  readonly heartbeat_ms?: string;
  readonly dead_after_ms?: string;
  readonly lost_worker_ms?: string;
}

/** Converts the flags to the arguments that `resolveConfig` parses. */
export function taskArguments(flags: TaskFlags): readonly string[] {
  return Object.keys(TASK_FLAGS).flatMap((name) => {
    const value = flags[name as keyof TaskFlags];
    return value === undefined ? [] : [`--${name}=${value}`];
  });
}
