/**
 * Leased input as a hook: a run that needs a batch waits for a lease first and reports what it consumed; other runs do
 * neither. Each run in flight has its own slot, by which the ps distinguish the steps of one worker.
 */
import { abortError, throwIfAborted } from '../../../base/async/deadline.js';
import { ShoalError } from '../../../base/errors/errors.js';
import { isOutputLike, Operation, type Output } from '../../../tensorflow/graph/operation.js';
import type { Fetches } from '../../../tensorflow/session/fetches.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import type { AdmittedRun, LeasedInput } from '../leases/leased-input.js';
import { nextOf, type ShardParts } from '../leases/shard-parts.js';
import { SessionRunHook } from './session-run-hook.js';

export class LeasedInputHook extends SessionRunHook {
  override readonly shards: ShardParts;
  /** The maximum number of runs in flight that need a batch. */
  override readonly slots: number;
  readonly #free: number[];
  /** Runs that wait for a slot, in order. */
  readonly #waiting = new Set<(slot: number) => void>();
  readonly #next: Operation;
  readonly #needs = new WeakMap<Operation, boolean>();
  #leased: LeasedInput | undefined;

  constructor(shards: ShardParts, slots = 1) {
    super();
    this.shards = shards;
    this.slots = slots;
    this.#free = Array.from({ length: slots }, (_, slot) => slot);
    this.#next = nextOf(shards.position.op);
  }

  override inputOpened(leased: LeasedInput): void {
    this.#leased = leased;
  }

  /** Fails with OUT_OF_RANGE when every record has been consumed. */
  override async admitRun(fetches: Fetches, signal: AbortSignal): Promise<AdmittedRun | undefined> {
    if (!this.#leased || !this.#isNeededBy(fetches)) return undefined;
    const slot = this.#free.shift() ?? (await this.#waitForSlot(signal));
    try {
      const step = await this.#leased.admit(signal);
      if (!step) throw new ShoalError('SHOAL_TF_OUT_OF_RANGE', 'Every record of the input has been consumed');
      const { position, slot: output } = this.shards;
      return {
        position,
        feeds: slot === 0 ? undefined : new Map<Output, Tensor>([[output, Tensor.of(BigInt(slot))]]),
        make: (run) => step.make(run).finally(() => this.#release(slot)),
      };
    } catch (error) {
      this.#release(slot);
      throw error;
    }
  }

  #waitForSlot(signal: AbortSignal): Promise<number> {
    throwIfAborted('Waiting for the steps in flight', signal);
    return new Promise((resolve, reject) => {
      const stop = () => {
        this.#waiting.delete(take);
        reject(abortError('Waiting for the steps in flight', signal));
      };
      const take = (slot: number) => {
        signal.removeEventListener('abort', stop);
        resolve(slot);
      };
      this.#waiting.add(take);
      signal.addEventListener('abort', stop, { once: true });
    });
  }

  #release(slot: number): void {
    const [next] = this.#waiting;
    if (!next) {
      this.#free.push(slot);
      return;
    }
    this.#waiting.delete(next);
    next(slot);
  }

  #isNeededBy(fetches: Fetches): boolean {
    if (fetches === null || fetches === undefined || typeof fetches !== 'object') return false;
    if (fetches instanceof Operation) return this.#isNeeded(fetches);
    if (isOutputLike(fetches)) return this.#isNeeded(fetches.toOutput().op);
    return Object.values(fetches).some((child) => this.#isNeededBy(child as Fetches));
  }

  /** Whether an op depends on the one that takes the next batch. */
  #isNeeded(op: Operation): boolean {
    const known = this.#needs.get(op);
    if (known !== undefined) return known;
    const seen = new Set<Operation>([op]);
    const open = [op];
    for (let next = open.pop(); next; next = open.pop()) {
      for (const input of [...next.inputs.map((output) => output.op), ...next.controlInputs]) {
        if (seen.has(input)) continue;
        seen.add(input);
        open.push(input);
      }
    }
    const needs = [...seen].some(({ name }) => name === this.#next.name);
    this.#needs.set(op, needs);
    return needs;
  }
}
