/**
 * What a job decides by the metrics of its evaluations: when training ends early, which checkpoint is the best, and how
 * often the learning rate was reduced. A pure reducer: its caller keeps the state where every task finds it.
 *
 * An evaluation counts once, in the order of the checkpoints. One of a step that was evaluated before, after a loss or a
 * restore of the best, may improve the best value, but does not end the patience. A decision to stop stays.
 */
import { invalid } from '../../../base/errors/errors.js';
import { NO_VALUES, nextValue, type PlateauRule, type PlateauState } from '../hooks/metric-comparison.js';
import type { Results } from './evaluate.js';

export interface MetricRule extends PlateauRule {
  /** The name of a metric of the evaluation. */
  readonly metric: string;
  /** Training does not stop before this step. Default: 0. */
  readonly minSteps?: number | undefined;
}

export interface DecisionRules {
  /** Training ends at the first plateau. */
  readonly stop?: MetricRule | undefined;
  /** The learning rate is reduced at each plateau. */
  readonly reduce?: MetricRule | undefined;
}

/** The checkpoint that was evaluated. */
export interface EvaluatedCheckpoint {
  readonly sequence: number;
  readonly attempt: string;
}

/** The results of one evaluation. */
export interface EvaluationResult {
  readonly step: number;
  readonly results: Results;
  /** Undefined: the values of a session, which are not stored. */
  readonly checkpoint?: EvaluatedCheckpoint | undefined;
}

export interface Decisions {
  /** The last step of the job: with another one it trains on. */
  readonly lastStep: number;
  readonly last?: EvaluationResult | undefined;
  /** The highest step that was evaluated. */
  readonly highest: number;
  readonly stop: PlateauState;
  readonly reduce: PlateauState;
  /** The best by the metric that stops training. */
  readonly best?: EvaluationResult | undefined;
  /** The step whose evaluation has ended training. */
  readonly stoppedAt?: number | undefined;
}

export const beginDecisions = (lastStep: number): Decisions => ({
  lastStep,
  highest: Number.NEGATIVE_INFINITY,
  stop: NO_VALUES,
  reduce: NO_VALUES,
});

/** The decisions of an earlier run of the job. With another last step it has not ended, and keeps its best checkpoint. */
export function resumeDecisions(before: Decisions, lastStep: number): Decisions {
  if (before.lastStep === lastStep) return before;
  const { stoppedAt: _, ...others } = before;
  return {
    ...others,
    lastStep,
    // It may begin at the best checkpoint, which is then evaluated again.
    highest: before.best?.step ?? Number.NEGATIVE_INFINITY,
    stop: { ...before.stop, waited: 0, plateaus: 0 },
  };
}

/** The decisions after an evaluation. */
export function decide(before: Decisions, rules: DecisionRules, now: EvaluationResult): Decisions {
  checkMetrics(rules, Object.keys(now.results));
  const { last, highest } = before;
  const seen = last?.checkpoint?.sequence ?? -1;
  if (now.checkpoint && now.checkpoint.sequence <= seen) return before;
  const after = { ...before, last: now, highest: Math.max(highest, now.step) };
  if (before.stoppedAt !== undefined) return after;
  const isRepeated = now.step <= highest;
  const next = (rule: MetricRule | undefined, state: PlateauState, isFree = false): PlateauState => {
    if (!rule) return state;
    const value = now.results[rule.metric] as number;
    const patience = isRepeated || isFree ? Number.POSITIVE_INFINITY : rule.patience;
    const made = nextValue(state, value, { ...rule, patience });
    return isRepeated && Object.is(made.best, state.best) ? state : made;
  };
  const { minSteps = 0 } = rules.stop ?? {};
  const stop = next(rules.stop, before.stop, now.step < minSteps);
  return {
    ...after,
    stop,
    reduce: next(rules.reduce, before.reduce),
    best: Object.is(stop.best, before.stop.best) ? before.best : now,
    stoppedAt: stop.plateaus > before.stop.plateaus ? now.step : undefined,
  };
}

/** Throws if a rule names a metric that is not among those of the evaluation. */
export function checkMetrics(rules: DecisionRules, metrics: readonly string[]): void {
  for (const [option, rule] of [
    ['earlyStopping', rules.stop],
    ['reduceLearningRate', rules.reduce],
  ] as const) {
    if (!rule || metrics.includes(rule.metric)) continue;
    throw invalid(`train.${option} watches 'eval/${rule.metric}', which is not a metric of the evaluation`, {
      hint: `The metrics are ${metrics.map((name) => `eval/${name}`).join(', ')}.`,
    });
  }
}
