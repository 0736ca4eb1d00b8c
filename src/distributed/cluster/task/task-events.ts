/** Membership events of a task, with listeners. */
import type { Effect } from '../membership/types.js';

export type TaskEvent = Extract<
  Effect,
  { type: 'joined' | 'suspected' | 'trusted' | 'lost' | 'back' | 'left' | 'epoch' | 'exit' }
>;
export type TaskEventType = TaskEvent['type'];
type Listener = (event: TaskEvent) => void;

export class TaskEvents {
  readonly #listeners = new Map<TaskEventType | '*', Set<Listener>>();

  /** Adds a listener for a type of event, `*` for all; returns the function that removes it. */
  on(type: '*', listener: Listener): () => void;
  on<T extends TaskEventType>(
    type: T,
    listener: (event: Extract<TaskEvent, { type: T }>) => void,
  ): () => void;
  on(type: TaskEventType | '*', listener: (event: never) => void): () => void {
    const listeners = this.#listeners.get(type) ?? new Set();
    this.#listeners.set(type, listeners);
    listeners.add(listener as Listener);
    return () => listeners.delete(listener as Listener);
  }

  emit(event: TaskEvent): void {
    for (const type of [event.type, '*'] as const) {
      for (const listener of [...(this.#listeners.get(type) ?? [])]) {
        try {
          listener(event);
        } catch (error) {
          // A failing listener must not stop membership, but must not go unnoticed.
          queueMicrotask(() => {
            throw error;
          });
        }
      }
    }
  }
}
