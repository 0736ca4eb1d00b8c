/** The flags that tell a task who it is, under TensorFlow's own names, for every command that takes them. */

const text = (brief: string, placeholder: string) =>
  ({ kind: 'parsed', parse: String, brief, placeholder, optional: true }) as const;

export const TASK_FLAGS = {
  job_name: text('The job of this task: chief, worker, ps or evaluator', 'job'),
  task_index: text('Which task of the job this is, from 0', 'n'),
  ps_hosts: text('Agent addresses of the ps, as host:port,host:port', 'list'),
  worker_hosts: text('Agent addresses of the workers; worker 0 is the chief where there is none', 'list'),
  chief_hosts: text('Agent address of the chief', 'address'),
  evaluator_hosts: text('Agent address of the evaluator', 'address'),
  config: text('A JSON file with any of these settings', 'file'),
  cluster_name: text('Keeps apart clusters that reach each other by mistake', 'name'),
  listen: text('Where the agent listens, where that is not its address in the cluster', 'address'),
  tf_port: text('The port of the TensorFlow server; any free one unless told', 'port'),
  certs: text('The directory that `shoal certs` wrote: agents speak mutual TLS', 'dir'),
  cluster_token_file: text('A file with the token that all tasks of the cluster share', 'file'),
  insecure_network: {
    kind: 'boolean',
    brief: 'Accept that TensorFlow’s ports are open to everybody who reaches this machine',
    optional: true,
    withNegated: false,
  },
  heartbeat_ms: text('How often tasks say that they are alive', 'ms'),
  dead_after_ms: text('Silence after which a task counts as dead', 'ms'),
  lost_worker_ms: text(
    'How long a ps waits for workers that died, when no other is there; default 300000',
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
  readonly tf_port?: string;
  readonly certs?: string;
  readonly cluster_token_file?: string;
  readonly insecure_network?: boolean;
  readonly heartbeat_ms?: string;
  readonly dead_after_ms?: string;
  readonly lost_worker_ms?: string;
}

/** The flags as the arguments that the configuration is read from. */
export function taskArguments(flags: TaskFlags): readonly string[] {
  return Object.keys(TASK_FLAGS).flatMap((name) => {
    const value = flags[name as keyof TaskFlags];
    return value === undefined ? [] : [`--${name}=${value}`];
  });
}
