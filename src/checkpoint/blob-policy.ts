/**
 * Who may write and delete which blobs of checkpoints. Reading is free to every member and operator. Fencing, that a chief
 * which was replaced may do nothing any more, comes before this and is not repeated here.
 *
 * | caller | manifest, index, graph | data of a shard |
 * |---|---|---|
 * | chief, operator | write, delete | write, delete |
 * | ps, worker | nothing | write on the chief's order, unless another process wrote it; delete what it wrote itself |
 * | evaluator | nothing | nothing |
 *
 * So a certificate of a ps or worker can neither make a checkpoint nor damage one that is there.
 */
import type { BlobAccess } from '../cluster/agent/blob-access.js';
import { parseTaskId } from '../cluster/spec/task-id.js';
import { parseDataFile } from '../formats/tensor-bundle/naming.js';

/** Whether a blob is one shard's data; all others describe a checkpoint or make one. */
function isShardData(name: string): boolean {
  const [folder, file] = name.split('/').slice(-2);
  return file !== undefined && folder!.includes('@') && parseDataFile(file) !== undefined;
}

/** Why an access is refused; undefined when it is allowed. */
export function checkpointBlobPolicy(access: BlobAccess): string | undefined {
  const { operation, name, role, task, isOrdered, isOthers } = access;
  if (role !== 'task') return undefined;
  if (task === undefined || parseTaskId(task).job === 'evaluator') return `${task} changes no checkpoints`;
  if (!isShardData(name)) return `${task} is not the chief, which alone changes it`;
  if (isOthers) return `${task} did not write the one that is there`;
  if (operation === 'write' && !isOrdered) return `${task} has no order of the chief to write it`;
  return undefined;
}
