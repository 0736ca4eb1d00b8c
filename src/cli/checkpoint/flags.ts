/** The flags that tell the checkpoint commands where checkpoints are. */

const text = (brief: string, placeholder: string) =>
  ({ kind: 'parsed', parse: String, brief, placeholder, optional: true }) as const;

export const whole = (least: number, most: number) => (given: string) => {
  const value = /^\d+$/.test(given) ? Number(given) : Number.NaN;
  if (value >= least && value <= most) return value;
  throw new RangeError(`expected a whole number from ${least} to ${most}`);
};

export const yes = (brief: string) =>
  ({ kind: 'boolean', default: false, brief, withNegated: false }) as const;

export const PLACE_FLAGS = {
  job: text('Whose checkpoints; needed where there are those of several jobs', 'name'),
  agent: text('The agent of any task of a running cluster; several with commas', 'host:port'),
  dir: text('The directory of a cluster that `shoal run` started, running or not', 'dir'),
  dirs: text('The blob directories of tasks that do not run, with commas', 'list'),
  store: text('A store that needs no cluster: file:/a/directory', 'url'),
  certs: text('A directory with the certificate of a task or of an operator', 'dir'),
  cluster_token_file: text('A file with the cluster token; SHOAL_CLUSTER_TOKEN tells it too', 'file'),
  json: yes('Print as JSON'),
} as const;

export interface PlaceFlags {
  readonly job?: string;
  readonly agent?: string;
  readonly dir?: string;
  readonly dirs?: string;
  readonly store?: string;
  readonly certs?: string;
  readonly cluster_token_file?: string;
  readonly json: boolean;
}

export const REPLICAS_FLAG = {
  kind: 'parsed',
  parse: whole(0, 100),
  optional: true,
  placeholder: 'n',
} as const;
