/**
 * The cluster definition in a session's configuration: ClusterSpec propagation, with the variables of a ps shared by
 * the sessions of all workers. It contains only the ps and the worker that opens the session: TensorFlow would wait for
 * other workers.
 */
import { create } from '@bufbuild/protobuf';
import {
  ClusterDefSchema,
  type ConfigProto,
  ConfigProto_ExperimentalSchema,
  ConfigProtoSchema,
} from '../../../base/proto/generated/config_pb.js';

/** Server addresses by job and task index. */
export type ServerAddresses = Readonly<Record<string, ReadonlyMap<number, string>>>;

export function clusterConfig(servers: ServerAddresses, base?: ConfigProto): ConfigProto {
  const config = create(ConfigProtoSchema, base);
  config.clusterDef = create(ClusterDefSchema, {
    job: Object.entries(servers)
      .filter(([, tasks]) => tasks.size > 0)
      .map(([name, tasks]) => ({ name, tasks: Object.fromEntries(tasks) })),
  });
  config.experimental = create(ConfigProto_ExperimentalSchema, base?.experimental);
  config.experimental.shareSessionStateInClusterspecPropagation = true;
  return config;
}
