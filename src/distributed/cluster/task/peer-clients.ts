/** The clients of a task for the agents of the others: one each, at the current address. */
import type { AgentClient } from '../agent/agent-client.js';
import type { Member } from '../membership/types.js';
import type { TaskId } from '../spec/task-id.js';

export class PeerClients {
  readonly #clients = new Map<TaskId, AgentClient>();

  constructor(readonly make: (task: TaskId, address: string) => AgentClient) {}

  of({ task, agentAddress }: Member): AgentClient {
    const known = this.#clients.get(task);
    if (known?.address === agentAddress) return known;
    known?.close();
    const client = this.make(task, agentAddress);
    this.#clients.set(task, client);
    return client;
  }

  /** Closes the clients for tasks that have been forgotten. */
  prune(members: ReadonlyMap<TaskId, Member>): void {
    for (const [task, client] of this.#clients) {
      if (members.has(task)) continue;
      client.close();
      this.#clients.delete(task);
    }
  }

  close(): void {
    for (const client of this.#clients.values()) client.close();
    this.#clients.clear();
  }
}
