/** Collects the history of a failover cluster from the logs of its tasks, and checks it. */
import type { FailoverCluster } from '../cluster/failover-cluster.js';
import { type History, type HistoryEvent, newHistory, reduceHistory, violationsOf } from './history.js';
import { eventIn } from './task-log.js';

interface Cursor {
  /** The number of lines that were read. */
  read: number;
  /** Whether its end is in the history. */
  hasEnded: boolean;
}

type Timed<T> = T extends unknown ? Omit<T, 'at'> : never;

export class Recorder {
  readonly #cluster: FailoverCluster;
  readonly #cursors: Cursor[] = [];
  #history: History = newHistory();

  constructor(cluster: FailoverCluster) {
    this.#cluster = cluster;
  }

  /** Reads what the tasks have logged. */
  collect(): History {
    const events = this.#cluster.started.flatMap((_, process) => this.#eventsOf(process));
    // Stable: events of one process stay in order.
    events.sort((a, b) => a.at - b.at);
    this.#history = events.reduce(reduceHistory, this.#history);
    return this.#history;
  }

  /** Adds what the lab itself has found. */
  add(event: Timed<HistoryEvent>): void {
    this.collect();
    this.#history = reduceHistory(this.#history, { at: Date.now(), ...event } as HistoryEvent);
  }

  /** All violations of the complete history. */
  violations(): readonly string[] {
    return violationsOf(this.collect());
  }

  #eventsOf(process: number): HistoryEvent[] {
    const { name: task, lines, process: running } = this.#cluster.started[process]!;
    const known = this.#cursors[process];
    const cursor = known ?? { read: 0, hasEnded: false };
    this.#cursors[process] = cursor;
    if (cursor.hasEnded) return [];
    const events: HistoryEvent[] = [];
    if (!known) events.push({ type: 'started', at: lines[0]?.at ?? Date.now(), process, task });
    for (; cursor.read < lines.length; cursor.read++) {
      const { at, text } = lines[cursor.read]!;
      const event = eventIn(text);
      if (event) events.push({ ...event, at, process } as HistoryEvent);
    }
    if (running.isOver) {
      cursor.hasEnded = true;
      events.push({ type: 'ended', at: lines.at(-1)?.at ?? Date.now(), process });
    }
    return events;
  }
}
