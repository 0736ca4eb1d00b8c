/** What `shoal sweep` prints: lines as trials begin and end, live ones on a terminal, and the table at the end. */
import { eventOf } from '../../../../base/text/events.js';
import { count } from '../../../../base/text/format.js';
import type { JobEvent } from '../../../../base/text/job-event.js';
import type { Screen } from '../../../job/launcher/screen.js';
import { stepOf } from '../../../job/running/step-text.js';
import {
  bestOf,
  metricOf,
  numberText,
  type Ranking,
  rankTrials,
  trialTable,
} from '../../../job/sweep/ranking.js';
import { reportOf, type TrialState } from '../../../job/sweep/trial-file.js';

export interface SweepViewOptions {
  readonly screen: Screen;
  readonly ranking: Ranking;
  /** The directory of the sweep. */
  readonly dir: string;
  readonly isJson: boolean;
}

const COMMAND = 'shoal';
/** How often the state is shown: on a terminal, and elsewhere. */
const LIVE_MS = 1000;
const LINES_MS = 10_000;
/** With more trials, the live table has only those that run. */
const MAX_ROWS = 15;

export class SweepView {
  readonly #options: SweepViewOptions;
  readonly #states: Map<string, TrialState>;
  readonly #timer: NodeJS.Timeout;
  #hasWarned = false;

  constructor(states: readonly TrialState[], options: SweepViewOptions) {
    this.#options = options;
    this.#states = new Map(states.map((state) => [state.trial, state]));
    const { screen, isJson } = options;
    this.#timer = setInterval(() => !isJson && this.#progress(), screen.live ? LIVE_MS : LINES_MS);
  }

  get states(): readonly TrialState[] {
    return [...this.#states.values()];
  }

  begin(job: string, remaining: number, parallel: number): void {
    const { length } = this.states;
    const done = length - remaining;
    const parts = [
      `${count(length, 'trial')} of job ${job}`,
      ...(done > 0 ? [`${done} done already`] : []),
      ...(parallel > 1 ? [`${parallel} at a time`] : []),
    ];
    this.#say(`${parts.join(', ')}, in ${this.#options.dir}`);
  }

  update(state: TrialState): void {
    const before = this.#states.get(state.trial);
    this.#states.set(state.trial, state);
    this.#warnOfMetric(state);
    if (before?.state === state.state) return;
    const { screen, isJson } = this.#options;
    const message = this.#describe(state);
    const level = state.state === 'failed' ? 'error' : 'info';
    if (isJson)
      screen.event(eventOf({ event: 'trial', ...reportOf(state) }, { task: COMMAND, level, message }));
    else screen.line(state.trial, message);
  }

  /** Passes on an event of a trial; without --json only its warnings. The error that ends it is that of its state. */
  event(event: JobEvent): void {
    const { screen, isJson } = this.#options;
    if (isJson) screen.event(event);
    else if (event.event === 'log' && ['warn', 'error'].includes(event.level))
      screen.line(event.trial ?? COMMAND, `${event.level.toUpperCase()} ${event.message}`);
  }

  stopping(): void {
    this.#say('stopping: the trials save and end; a second signal kills them');
  }

  /** Prints the table. */
  end(isInterrupted: boolean): void {
    this.close();
    const { ranking, screen, isJson, dir } = this.#options;
    const { states } = this;
    const trials = rankTrials(states.map(reportOf), ranking);
    const best = bestOf(trials, ranking);
    const done = states.filter(({ state }) => state === 'done').length;
    const failed = states.filter(({ state }) => state === 'failed').length;
    const summary = [
      `${done} of ${count(states.length, 'trial')} done`,
      ...(failed > 0 ? [`${failed} failed`] : []),
      ...(best
        ? [`best ${ranking.metric}: ${numberText(metricOf(best, ranking.metric))}, ${best.trial}`]
        : []),
    ].join('; ');
    const isOver = done === states.length;
    const hint = isOver ? '' : `; the same command ${isInterrupted ? 'resumes' : 'runs the others again'}`;
    if (isJson) {
      const data = { event: 'sweep', ...ranking, best: best?.trial, trials } as const;
      screen.event(eventOf(data, { task: COMMAND, level: 'info', message: summary + hint }));
      return;
    }
    process.stdout.write(
      `\n${trialTable(trials, ranking)}\n\n${summary}${hint}\ntheir directories are in ${dir}\n`,
    );
  }

  close(): void {
    clearInterval(this.#timer);
    this.#options.screen.close();
  }

  #say(line: string): void {
    this.#options.screen.log(COMMAND, 'info')(line);
  }

  #describe({ state, starts, lastStep, seconds, error, ...trial }: TrialState): string {
    if (state === 'running') return starts > 1 ? `started again (${starts})` : 'started';
    const { metric } = this.#options.ranking;
    const value = metric === 'loss' ? undefined : metricOf({ ...trial, state, starts, seconds }, metric);
    const parts = [
      ...(trial.step === undefined ? [] : [stepOf(trial.step, lastStep)]),
      ...(trial.loss === undefined ? [] : [`loss ${numberText(trial.loss)}`]),
      ...(value === undefined ? [] : [`${metric} ${numberText(value)}`]),
      ...(state === 'failed' && error ? [`${error.code ? `${error.code}: ` : ''}${error.message}`] : []),
    ];
    return [state, ...parts].join(' · ');
  }

  #progress(): void {
    const { states } = this;
    const { screen, ranking } = this.#options;
    const running = states.filter(({ state }) => state === 'running');
    if (running.length === 0) return;
    const ended = states.filter(({ state }) => ['done', 'failed', 'stopped'].includes(state)).length;
    const best = bestOf(states.map(reportOf), ranking);
    const summary = [
      `${ended} of ${count(states.length, 'trial')} ended, ${running.length} running`,
      ...(best
        ? [`best ${ranking.metric} ${numberText(metricOf(best, ranking.metric))}: ${best.trial}`]
        : []),
    ].join(' · ');
    if (screen.live) {
      const shown = states.length <= MAX_ROWS ? states : running;
      screen.status([...trialTable(shown.map(reportOf), ranking).split('\n'), summary]);
      return;
    }
    for (const { step, lastStep, loss, trial } of running)
      if (step !== undefined)
        screen.line(
          trial,
          [stepOf(step, lastStep), ...(loss === undefined ? [] : [`loss ${numberText(loss)}`])].join(' · '),
        );
    this.#say(summary);
  }

  /** A metric that no trial reports is noticed with the first that is done, not after all. */
  #warnOfMetric(state: TrialState): void {
    const { ranking, screen } = this.#options;
    if (this.#hasWarned || state.state !== 'done' || metricOf(reportOf(state), ranking.metric) !== undefined)
      return;
    this.#hasWarned = true;
    const names = [
      ...(state.loss === undefined ? [] : ['loss']),
      ...Object.keys(state.metrics ?? {}).map((name) => `eval/${name}`),
      ...Object.keys(state.outputs ?? {}),
    ];
    const known = names.length === 0 ? 'it reports no values' : `it reports ${names.join(', ')}`;
    screen.log(COMMAND, 'info')(`${state.trial} has no ${ranking.metric}: ${known}`, 'warn');
  }
}
