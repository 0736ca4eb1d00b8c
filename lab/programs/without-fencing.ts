/**
 * Removes the fencing of replaced chiefs from a task, to show that the checks of a soak notice it: orders and changes of
 * blobs are accepted from any chief.
 */
import { BlobGuard } from '../../src/cluster/agent/blob-access.js';
import { ClusterTask } from '../../src/cluster/task/cluster-task.js';

export function removeFencing(): void {
  const accept = () => undefined;
  const { begin } = ClusterTask.prototype;
  ClusterTask.prototype.begin = function (agent, address) {
    Object.assign(this.hooks, { judge: accept, judgeCaller: accept, judgeWriter: accept });
    return begin.call(this, agent, address);
  };
  BlobGuard.prototype.check = async () => {};
}
