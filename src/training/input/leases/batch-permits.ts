/**
 * Permits for the batches that are being fed to a session: the holder of a permit gets its batch soon.
 */
import { throwIfAborted } from '../../../base/async/deadline.js';

/** The right to take one batch. It is void after the input has restarted. */
export interface BatchPermit {
  readonly isValid: boolean;
}

export class BatchPermits {
  #free = 0;
  #isOver = false;
  #isVoid = false;
  #failure: { readonly error: unknown } | undefined;
  readonly #changes = new Set<() => void>();

  add(count: number): void {
    this.#free += count;
    this.#change();
  }

  end(): void {
    this.#isOver = true;
    this.#change();
  }

  fail(error: unknown): void {
    this.#failure = { error };
    this.#change();
  }

  void(): void {
    this.#isVoid = true;
    this.#change();
  }

  async take(signal?: AbortSignal): Promise<BatchPermit | undefined> {
    while (!this.#isVoid) {
      throwIfAborted('Waiting for input', signal);
      if (this.#failure) throw this.#failure.error;
      if (this.#free > 0) {
        this.#free -= 1;
        break;
      }
      if (this.#isOver) return undefined;
      await this.#next(signal);
    }
    const isVoid = () => this.#isVoid;
    return {
      get isValid() {
        return !isVoid();
      },
    };
  }

  #change(): void {
    for (const change of [...this.#changes]) change();
  }

  #next(signal?: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const settle = () => {
        this.#changes.delete(settle);
        signal?.removeEventListener('abort', settle);
        resolve();
      };
      this.#changes.add(settle);
      signal?.addEventListener('abort', settle, { once: true });
    });
  }
}
