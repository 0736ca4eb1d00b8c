/**
 * The variables of ps that run in another process than before, so that they have no values. The chief need not ask for
 * them: a ps that has just started answers its first request slowly.
 */
import type { Member } from '../../../distributed/cluster/membership/types.js';
import type { Variable } from '../../../tensorflow/variables/variable.js';

export interface ReplacedVariablesOptions {
  /** The current process of each ps. */
  readonly ps: () => readonly Pick<Member, 'task' | 'nonce'>[];
  /** The task that holds the variables of a device. */
  readonly ownerOf: (device: string) => string;
  /** Resolves when all ps are there. */
  readonly allThere: (signal?: AbortSignal) => Promise<unknown>;
}

export class ReplacedVariables {
  readonly #options: ReplacedVariablesOptions;
  /** The process of each ps when its variables had values. */
  readonly #nonces = new Map<string, string>();

  constructor(options: ReplacedVariablesOptions) {
    this.#options = options;
  }

  /** Waits until all ps are there, and returns those of the variables that are certainly lost. Others may be lost too. */
  async among<V extends Pick<Variable, 'device'>>(
    variables: readonly V[],
    signal?: AbortSignal,
  ): Promise<readonly V[]> {
    const { ps, ownerOf, allThere } = this.#options;
    if (this.#nonces.size === 0) return [];
    await allThere(signal);
    const replaced = new Set<string>();
    for (const { task, nonce } of ps()) {
      const before = this.#nonces.get(task);
      if (before !== undefined && before !== nonce) replaced.add(task);
    }
    return variables.filter(({ device }) => replaced.has(ownerOf(device)));
  }

  /** All variables have values. */
  complete(): void {
    for (const { task, nonce } of this.#options.ps()) this.#nonces.set(task, nonce);
  }
}
