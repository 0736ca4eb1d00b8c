/**
 * The tensors that a task keeps between the stages of a run of another task. The caller says which, and how many stages
 * will use each: the last one frees it. A caller that gives up a run says so, and the end of the connection frees all.
 */
import { ShoalError } from '../../../base/errors/errors.js';
import type { Tensor } from '../../../tensorflow/tensor/tensor.js';
import type { RunCall } from './protocol.js';

interface KeptTensor {
  readonly tensor: Tensor;
  uses: number;
}

/** What becomes of the outputs of a call, by position. */
export interface AfterCall {
  isSent(output: number): boolean;
  isKept(output: number): boolean;
}

export interface KeptCall {
  /** All inputs of the stage. */
  readonly inputs: readonly Tensor[];
  /** The stage has ended, with these outputs if it succeeded. Frees the inputs, but for those that are kept. */
  end(outputs: readonly Tensor[] | undefined): AfterCall;
}

/** More runs at once than any caller has: each holds its inputs, and what it keeps, in memory. */
export const MOST_RUNS = 4096;
const NOTHING_KEPT: AfterCall = { isSent: () => true, isKept: () => false };

export class KeptTensors {
  readonly #runs = new Map<number, Map<number, KeptTensor>>();

  /** How many tensors are kept. */
  get size(): number {
    let size = 0;
    for (const tensors of this.#runs.values()) size += tensors.size;
    return size;
  }

  /**
   * Begins a call with the tensors that were sent. Throws a ShoalError if a tensor that it names is not here, or too many
   * runs keep tensors.
   */
  call(kept: RunCall['kept'], sent: readonly Tensor[]): KeptCall {
    if (!kept) {
      const end = () => {
        for (const tensor of sent) tensor.dispose();
        return NOTHING_KEPT;
      };
      return { inputs: sent, end };
    }
    const { run, keeping } = kept;
    const { present, keeps } = keeping;
    if (keeps.length > 0 && !this.#runs.has(run) && this.#runs.size >= MOST_RUNS) {
      throw new ShoalError(
        'SHOAL_TF_RESOURCE_EXHAUSTED',
        `tensors of ${MOST_RUNS} runs of this task are kept, and of no more`,
      );
    }
    const withheld = new Set(keeping.withheld);
    const here = new Map(present.map(({ at, tensor }) => [at, this.#find(run, tensor)]));
    let next = 0;
    const inputs = Array.from({ length: sent.length + here.size }, (_, at) => here.get(at) ?? sent[next++]);
    if (inputs.some((tensor) => tensor === undefined)) throw new Error('a run lacks an input');
    const complete = inputs as Tensor[];
    return {
      inputs: complete,
      end: (outputs) => {
        const stay = new Set<Tensor>();
        if (outputs) {
          const all = [...complete, ...outputs];
          for (const { at, tensor: number, uses } of keeps) {
            const tensor = all[at];
            if (tensor === undefined || uses === 0) continue;
            stay.add(tensor);
            this.#keep(run, number, { tensor, uses });
          }
        }
        for (const tensor of sent) if (!stay.has(tensor)) tensor.dispose();
        for (const { tensor } of present) this.#used(run, tensor);
        return {
          isSent: (at) => !withheld.has(at),
          isKept: (at) => stay.has((outputs as readonly Tensor[])[at] as Tensor),
        };
      },
    };
  }

  /** The caller has given up the run; no stage of it is running. */
  forget(run: number): void {
    for (const { tensor } of this.#runs.get(run)?.values() ?? []) tensor.dispose();
    this.#runs.delete(run);
  }

  clear(): void {
    for (const run of [...this.#runs.keys()]) this.forget(run);
  }

  #find(run: number, number: number): Tensor {
    const kept = this.#runs.get(run)?.get(number);
    if (kept) return kept.tensor;
    throw new ShoalError('SHOAL_INTERNAL', `tensor ${number} of run ${run} is not here`);
  }

  #keep(run: number, number: number, kept: KeptTensor): void {
    const tensors = this.#runs.get(run) ?? new Map<number, KeptTensor>();
    tensors.get(number)?.tensor.dispose();
    tensors.set(number, kept);
    this.#runs.set(run, tensors);
  }

  #used(run: number, number: number): void {
    const tensors = this.#runs.get(run);
    const kept = tensors?.get(number);
    if (!tensors || !kept) return;
    kept.uses -= 1;
    if (kept.uses > 0) return;
    kept.tensor.dispose();
    tensors.delete(number);
    if (tensors.size === 0) this.#runs.delete(run);
  }
}
