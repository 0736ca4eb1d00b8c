/**
 * Who may write and delete the blobs of checkpoints. Every member and operator may read. The caller has already fenced
 * off a replaced chief.
 *
 * | caller | manifest, index, graph | data of a shard |
 * |---|---|---|
 * | chief, operator | write, delete | write, delete |
 * | ps, worker | nothing | write on the chief's order, unless another process wrote it; delete what it wrote itself |
 * | evaluator | nothing | nothing |
 *
 * So the certificate of a ps or worker can neither create a checkpoint nor damage an existing one.
 */

import { parseDataFile } from '../../../tensorflow/formats/tensor-bundle/naming.js';
import type { BlobAccess } from '../../cluster/agent/blobs/blob-access.js';
import { parseTaskId } from '../../cluster/spec/task-id.js';

/** Whether a blob is the data of one shard; all others are metadata. */
function isShardData(name: string): boolean {
  const [folder, file] = name.split('/').slice(-2);
  return file !== undefined && folder!.includes('@') && parseDataFile(file) !== undefined;
}

/** Why an access is refused; undefined when it is allowed. */
export function checkpointBlobPolicy(access: BlobAccess): string | undefined {
  const { operation, name, role, task, isOrdered, isOthers } = access;
  if (role !== 'task') return undefined;
  if (task === undefined || parseTaskId(task).job === 'evaluator')
    return `${task} may not change checkpoints`;
  if (!isShardData(name)) return `${task} is not the chief, and only the chief may change it`;
  if (isOthers) return `another task wrote the existing blob, not ${task}`;
  if (operation === 'write' && !isOrdered) return `the chief did not order ${task} to write it`;
  return undefined;
}
