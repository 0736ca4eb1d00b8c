/** Which worker gets how many tokens of synchronous training, by the workers that are present. */
import { isPresent } from '../../../../distributed/cluster/membership/types.js';
import type { ClusterServer } from '../../../../distributed/cluster/runtime/cluster-server.js';
import type { TaskId } from '../../../../distributed/cluster/spec/task-id.js';
import type { Output } from '../../../../tensorflow/graph/operation.js';
import type { SyncReplicasOptimizer } from '../../../../tensorflow/optimizers/sync/sync-replicas.js';
import type { Feeds } from '../../../../tensorflow/session/feeds.js';
import { Tensor } from '../../../../tensorflow/tensor/tensor.js';

/** What the chief knows about the workers. */
export interface TokenSharesPlace extends Pick<ClusterServer, 'task' | 'finished'> {
  /** Whether the chief makes no more steps itself, and waits for those of the others. */
  readonly isWaiting: () => boolean;
}

export class TokenShares {
  /** The tokens of each worker for the current step. */
  handedOut: Int32Array;
  /** The tokens of each worker that it had not taken at the end of the last step. */
  left: readonly number[] = [];
  /** Whether workers that have never been there are awaited. */
  awaitsNew = true;
  readonly #optimizer: SyncReplicasOptimizer;
  readonly #place: TokenSharesPlace | undefined;

  /** @param place undefined without a cluster: all workers count as present. */
  constructor(optimizer: SyncReplicasOptimizer, place: TokenSharesPlace | undefined) {
    this.#optimizer = optimizer;
    this.#place = place;
    this.handedOut = new Int32Array(optimizer.workers.length);
  }

  /** A worker that has finished makes no more steps, even if steps are repeated after a loss. */
  isAway(worker: number): boolean {
    const id = this.#optimizer.workers[worker] as TaskId;
    if (this.#place === undefined) return false;
    const { task, finished, isWaiting } = this.#place;
    if (id === task.task) return isWaiting();
    const member = task.member(id);
    if (!member) return !this.awaitsNew;
    return !isPresent(member.status) || finished.has(member);
  }

  /** Whether a worker has reported the end of its training; the chief's own is over while it waits for the others. */
  isOver(worker: number): boolean {
    const id = this.#optimizer.workers[worker] as TaskId;
    if (this.#place === undefined) return false;
    const { task, finished, isWaiting } = this.#place;
    const member = task.member(id);
    return id === task.task ? isWaiting() : member !== undefined && finished.has(member);
  }

  /** Whether others compute the gradients of a worker: it is away, or did not take its tokens of the last step. */
  isAbsent(worker: number): boolean {
    return this.isAway(worker) || (this.left[worker] ?? 0) > 0;
  }

  /** The tokens for the start. The very first step waits for workers that have not started yet. */
  start(isFirst: boolean): Feeds {
    this.left = [];
    this.awaitsNew = isFirst;
    this.handedOut = this.now();
    return this.feeds(this.handedOut);
  }

  /** The tokens of a step. */
  now(): Int32Array {
    const training = new Set(this.#training(() => true));
    return this.#optimizer.tokensFor(this.#optimizer.workers.map((_, i) => training.has(i)));
  }

  /** The chosen workers that are not absent; if all of them are, those that are not away. */
  #training(isChosen: (worker: number) => boolean): number[] {
    const there = [...this.#optimizer.workers.keys()].filter((i) => isChosen(i) && !this.isAway(i));
    const training = there.filter((i) => !this.isAbsent(i));
    return training.length > 0 ? training : there;
  }

  /** The tokens that the others get in place of workers that have gone. They count as handed out. */
  insteadOf(isGone: (worker: number) => boolean): Int32Array {
    const { handedOut } = this;
    const instead = new Int32Array(handedOut.length);
    const others = this.#training((i) => !isGone(i));
    if (others.length === 0) return instead;
    const missing = handedOut.reduce((sum, count, i) => (isGone(i) ? sum + count : sum), 0);
    for (let n = 0; n < missing; n++) instead[others[n % others.length] as number]! += 1;
    this.handedOut = handedOut.map((count, i) => (isGone(i) ? 0 : count + (instead[i] as number)));
    return instead;
  }

  /** One token for some workers. */
  oneFor(isMeant: (worker: number) => boolean): Int32Array {
    return this.handedOut.map((_, i) => (isMeant(i) ? 1 : 0));
  }

  feeds(counts: Int32Array): readonly (readonly [Output, Tensor])[] {
    return [[this.#optimizer.tokenCounts, Tensor.of(counts)]];
  }
}
