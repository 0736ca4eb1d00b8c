/** Sets the factor of the learning rate: by the decisions of evaluations, or by a value of the training batch. */
import { isShoalError } from '../../../base/errors/errors.js';
import type { Log } from '../../../base/text/log.js';
import type { Output } from '../../../tensorflow/graph/operation.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { NO_VALUES, nextValue, type PlateauRule } from '../../../training/train/hooks/metric-comparison.js';
import {
  type SessionRunArgs,
  type SessionRunContext,
  SessionRunHook,
  type SessionRunValues,
} from '../../../training/train/hooks/session-run-hook.js';
import type { TrainingRunner } from '../../../training/train/task/training-runner.js';
import type { ReducedRate } from '../graph/training-graph.js';

const SET_MS = 10_000;

const assigned = (session: Pick<TrainingRunner, 'run'>, { assign, value }: ReducedRate, factor: number) =>
  session.run(assign, { feeds: [[value, Tensor.of(factor, { dtype: 'float32' })]], timeoutMs: SET_MS });

/** Keeps the factor at what was decided: after a recovery it is that of an earlier checkpoint. */
export class RateControl {
  readonly #rate: ReducedRate;
  readonly #session: TrainingRunner;
  readonly #log: Log;

  constructor(rate: ReducedRate, session: TrainingRunner, log: Log) {
    this.#rate = rate;
    this.#session = session;
    this.#log = log;
  }

  /** Sets the factor, if it is another one. During a recovery it does nothing: its caller repeats it. */
  async set(factor: number): Promise<void> {
    const { base } = this.#rate;
    try {
      const now = (await this.#session.run(this.#rate.factor.toOutput(), { timeoutMs: SET_MS })).number();
      if (now === Math.fround(factor)) return;
      await assigned(this.#session, this.#rate, factor);
      const rate =
        base === undefined ? `multiplied by ${Number(factor.toPrecision(6))}` : format(base * factor);
      this.#log(`the learning rate is ${rate}`);
    } catch (error) {
      if (!isShoalError(error)) throw error;
    }
  }
}

const format = (rate: number): string => String(Number(rate.toPrecision(6)));

export interface ReduceRateOptions {
  readonly metric: Output;
  readonly rate: ReducedRate;
  readonly log: Log;
}

/** Reduces the learning rate when a value has not improved for a number of the chief's steps. */
export class ReduceRateHook extends SessionRunHook<Tensor> {
  readonly #rule: PlateauRule & { readonly factor: number; readonly min: number };
  readonly #options: ReduceRateOptions;
  #state = NO_VALUES;

  constructor(
    rule: PlateauRule & { readonly factor: number; readonly min: number },
    options: ReduceRateOptions,
  ) {
    super();
    this.#rule = rule;
    this.#options = options;
  }

  override beforeRun(): SessionRunArgs {
    return { fetches: this.#options.metric };
  }

  override async afterRun(
    { session }: SessionRunContext,
    { results }: SessionRunValues<Tensor>,
  ): Promise<void> {
    const { rate, log } = this.#options;
    const { factor, min } = this.#rule;
    const { plateaus } = this.#state;
    this.#state = nextValue(this.#state, results.number(), this.#rule);
    if (this.#state.plateaus === plateaus) return;
    const now = (await session.run(rate.factor.toOutput())).number();
    const least = rate.base === undefined ? 0 : Math.min(1, min / rate.base);
    const next = Math.max(now * factor, least);
    if (next >= now) return;
    await assigned(session, rate, next);
    const shown = rate.base === undefined ? `multiplied by ${format(next)}` : format(rate.base * next);
    log(`no improvement on ${this.#state.best}: the learning rate is ${shown}`);
  }
}
