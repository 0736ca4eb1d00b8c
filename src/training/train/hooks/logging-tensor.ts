/** Logs the values of tensors: every so many runs or seconds, at the end, or both. */

import { invalid } from '../../../base/errors/errors.js';
import type { OrNull } from '../../../base/errors/null-options.js';
import { knownOptions, type Names } from '../../../base/errors/option-names.js';
import type { Log } from '../../../base/text/log.js';
import type { OutputLike } from '../../../tensorflow/graph/operation.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import type { TrainingRunner } from '../task/training-runner.js';
import {
  type HookSetup,
  type SessionRunArgs,
  type SessionRunContext,
  SessionRunHook,
  type SessionRunValues,
} from './session-run-hook.js';
import { SecondOrStepTimer } from './timer.js';

export type Watched = OutputLike | string;
export type TensorsByTag = Readonly<Record<string, Tensor>>;

export interface LoggingTensorOptions {
  /** Tensors by tag, or a list of tensors whose names are the tags. */
  readonly tensors: Readonly<Record<string, Watched>> | readonly Watched[];
  /** Runs between log lines; default: none. Set this, `everyNSecs`, or only `atEnd`. */
  readonly everyNIter?: number;
  /** Seconds between log lines; default: none. */
  readonly everyNSecs?: number;
  /** Whether to log the values at the end; default: false. */
  readonly atEnd?: boolean;
  /** Formats the values; default: `tag = value`, separated by commas. */
  readonly formatter?: (values: TensorsByTag) => string;
  /** Receives the lines; default: the session's log. */
  readonly log?: Log;
  /** A monotonic clock, in milliseconds; default: `performance.now`. */
  readonly now?: () => number;
}

/** All of them: a misspelt one is an error. */
const OPTIONS: Names<LoggingTensorOptions> = {
  tensors: true,
  everyNIter: true,
  everyNSecs: true,
  atEnd: true,
  formatter: true,
  log: true,
  now: true,
};

export class LoggingTensorHook extends SessionRunHook<TensorsByTag> {
  readonly #options: LoggingTensorOptions;
  readonly #timer: SecondOrStepTimer | undefined;
  readonly #fetches: Readonly<Record<string, Watched>>;
  readonly #requested = new WeakSet<SessionRunContext>();
  #runs = 0;
  #log!: Log;

  constructor(given: OrNull<LoggingTensorOptions>) {
    super();
    const options = knownOptions(given, OPTIONS, 'a LoggingTensorHook');
    this.#options = options;
    const { tensors, everyNIter, everyNSecs, atEnd = false, now } = options;
    const onlyAtEnd = atEnd && everyNIter === undefined && everyNSecs === undefined;
    this.#timer = onlyAtEnd
      ? undefined
      : new SecondOrStepTimer({ everySecs: everyNSecs, everySteps: everyNIter, now });
    const byTag = Array.isArray(tensors)
      ? Object.fromEntries((tensors as readonly Watched[]).map((watched) => [tagOf(watched), watched]))
      : (tensors as Readonly<Record<string, Watched>>);
    if (Object.keys(byTag).length === 0) throw invalid('LoggingTensorHook has no tensors to log');
    this.#fetches = byTag;
  }

  override begin({ log }: HookSetup): void {
    this.#log = this.#options.log ?? log;
    this.#timer?.reset();
    this.#runs = 0;
  }

  override beforeRun(context: SessionRunContext): SessionRunArgs | undefined {
    if (!this.#timer?.shouldTriggerForStep(this.#runs)) return undefined;
    this.#requested.add(context);
    return { fetches: this.#fetches };
  }

  override afterRun(context: SessionRunContext, { results }: SessionRunValues<TensorsByTag>): void {
    if (this.#requested.has(context)) this.#logValues(results);
    this.#runs += 1;
  }

  override async end(session: TrainingRunner): Promise<void> {
    if (this.#options.atEnd) this.#logValues((await session.run(this.#fetches as object)) as TensorsByTag);
  }

  #logValues(values: TensorsByTag): void {
    const elapsed = this.#timer?.update(this.#runs);
    const { formatter } = this.#options;
    if (formatter) {
      this.#log(formatter(values));
      return;
    }
    const shown = Object.entries(values).map(([tag, value]) => `${tag} = ${format(value)}`);
    this.#log(`${shown.join(', ')}${elapsed ? ` (${elapsed.secs.toFixed(3)} sec)` : ''}`);
  }
}

const tagOf = (watched: Watched): string => (typeof watched === 'string' ? watched : watched.toOutput().name);

function format(value: unknown): string {
  if (!(value instanceof Tensor)) return String(value);
  const plain = (_key: string, item: unknown) => (typeof item === 'bigint' ? Number(item) : item);
  return value.rank === 0 ? String(value.item()) : JSON.stringify(value.toArray(), plain);
}
