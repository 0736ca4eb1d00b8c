/**
 * Runs the trials of a sweep, some at a time. Each is a process with its own directory, and its events say how far it is.
 * The state of each trial is in its directory: the same sweep, started again, runs those that are not done.
 */
import { createWriteStream, type WriteStream } from 'node:fs';
import { join } from 'node:path';
import { sleep } from '../../../base/async/deadline.js';
import { makeDirectorySync } from '../../../base/files/directories.js';
import { eventLine, eventOf, parseEventLine } from '../../../base/text/events.js';
import type { JobEvent } from '../../../base/text/job-event.js';
import { type ChildCommand, TaskChild } from '../launcher/child.js';
import { Guard } from '../launcher/guard.js';
import { describeEnding } from '../launcher/policy.js';
import type { Side } from '../launcher/screen.js';
import { afterEvent, type TrialState, writeTrial } from './trial-file.js';
import type { Trial } from './trials.js';

export interface SweepOptions {
  /** The trials that are to run, and what is known of each. */
  readonly trials: readonly { readonly trial: Trial; readonly state: TrialState }[];
  readonly parallel: number;
  /** The command of a trial, which prints events. */
  readonly entry: (trial: Trial, dir: string) => ChildCommand;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** No trial begins any more, and those that run stop gracefully. */
  readonly stop: AbortSignal;
  /** All trials are killed. */
  readonly kill: AbortSignal;
  /** How long a trial may take to stop. */
  readonly graceMs: number;
  /** Called when a trial begins, reports something, or ends. */
  readonly onState: (state: TrialState, before: TrialState) => void;
  /** Called with each event of a trial. */
  readonly onEvent: (event: JobEvent) => void;
}

/** How often the file of a trial that runs is written. */
const WRITE_MS = 2000;
/** Everything that the trials report, with their errors. */
export const EVENTS_FILE = 'events.jsonl';

/** Resolves when all trials have ended, or have stopped. */
export async function runSweep(options: SweepOptions): Promise<void> {
  const waiting = [...options.trials];
  const guard = new Guard();
  const runNext = async (): Promise<void> => {
    for (;;) {
      const next = options.stop.aborted ? undefined : waiting.shift();
      if (!next) return;
      await new TrialRun(options, guard, next.trial, next.state).run();
    }
  };
  try {
    await Promise.all(Array.from({ length: Math.min(options.parallel, waiting.length) }, runNext));
  } finally {
    await guard.close();
  }
}

class TrialRun {
  readonly #options: SweepOptions;
  readonly #guard: Guard;
  readonly #trial: Trial;
  readonly #before: number;
  readonly #begun = performance.now();
  #state: TrialState;
  #writtenAt = 0;

  constructor(options: SweepOptions, guard: Guard, trial: Trial, state: TrialState) {
    this.#options = options;
    this.#guard = guard;
    this.#trial = trial;
    this.#state = state;
    this.#before = state.seconds;
  }

  async run(): Promise<void> {
    const { dir, starts } = this.#state;
    makeDirectorySync(dir);
    this.#change({ state: 'running', starts: starts + 1, error: undefined, exitCode: undefined }, true);
    const log = createWriteStream(join(dir, EVENTS_FILE), { flags: 'a' });
    // A log that cannot be written is not worth a failure.
    log.on('error', () => {});
    let child: TaskChild;
    try {
      const { entry, env } = this.#options;
      child = new TaskChild({
        ...entry(this.#trial, dir),
        env,
        onLine: (line, side) => this.#take(line, side, log),
      });
    } catch (error) {
      log.end();
      this.#change({ state: 'failed', error: { message: String(error) } }, true);
      return;
    }
    this.#guard.watch(child.pid);
    const ending = await this.#ended(child);
    this.#guard.release(child.pid);
    log.end();
    const { stop, kill } = this.#options;
    const isStopped = ending.code === 130 || ((stop.aborted || kill.aborted) && !this.#state.error);
    const state = ending.code === 0 ? 'done' : isStopped ? 'stopped' : 'failed';
    const error = state === 'failed' ? (this.#state.error ?? { message: describeEnding(ending) }) : undefined;
    this.#change({ state, exitCode: ending.code, error }, true);
  }

  /** Waits for the end of the process; stops it if that is requested, and kills it if it takes too long. */
  async #ended(child: TaskChild) {
    const { stop, kill, graceMs } = this.#options;
    const over = new AbortController();
    const onStop = () => {
      child.stop();
      void sleep(graceMs, over.signal).then(
        () => child.kill(),
        () => {},
      );
    };
    const onKill = () => child.kill();
    stop.addEventListener('abort', onStop, { once: true, signal: over.signal });
    kill.addEventListener('abort', onKill, { once: true, signal: over.signal });
    if (stop.aborted) onStop();
    if (kill.aborted) onKill();
    try {
      return await child.ended;
    } finally {
      over.abort();
    }
  }

  #take(line: string, side: Side, log: WriteStream): void {
    const found = side === 'stdout' ? parseEventLine(line) : undefined;
    const other = { task: 'shoal', level: side === 'stderr' ? 'warn' : 'info', message: line } as const;
    const event = { ...(found ?? eventOf({ event: 'log' }, other)), trial: this.#trial.name } as JobEvent;
    if (log.writable) log.write(`${eventLine(event)}\n`);
    if (found) this.#options.onEvent(event);
    const next = afterEvent(this.#state, event);
    if (next !== this.#state) this.#change(next, event.event === 'evaluation');
  }

  #change(changes: Partial<TrialState>, isImportant: boolean): void {
    const before = this.#state;
    const seconds = this.#before + (performance.now() - this.#begun) / 1000;
    this.#state = { ...before, ...changes, seconds };
    if (isImportant || performance.now() - this.#writtenAt > WRITE_MS) {
      this.#writtenAt = performance.now();
      try {
        writeTrial(this.#state);
      } catch (error) {
        // How far a trial is, is written again; its end must be.
        if (this.#state.state !== 'running') throw error;
      }
    }
    this.#options.onState(this.#state, before);
  }
}
