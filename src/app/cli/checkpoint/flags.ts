/** The flags that locate checkpoints. */
import { integer, JSON_FLAG, optionalText as text } from '../flags.js';

export const PLACE_FLAGS = {
  job: text('The job that saved the checkpoints; needed if there are several', 'name'),
  agent: text('The agent of any task of a running cluster; a comma-separated list is allowed', 'host:port'),
  dir: text('The directory of a cluster that `shoal run` started, running or not', 'dir'),
  dirs: text('The blob directories of stopped tasks, comma-separated', 'list'),
  store: text('A store that needs no cluster: file:/a/directory', 'url'),
  certs: text('A directory with the certificate of a task or of an operator', 'dir'),
  clusterTokenFile: text('A file with the cluster token; default: the token in SHOAL_CLUSTER_TOKEN', 'file'),
  json: JSON_FLAG,
} as const;

export interface PlaceFlags {
  readonly job?: string;
  readonly agent?: string;
  readonly dir?: string;
  readonly dirs?: string;
  readonly store?: string;
  readonly certs?: string;
  readonly clusterTokenFile?: string;
  readonly json: boolean;
}

export const REPLICAS_FLAG = {
  kind: 'parsed',
  parse: integer(0, 100),
  optional: true,
  placeholder: 'n',
} as const;
