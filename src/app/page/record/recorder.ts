/**
 * What a task remembers for the page: curves, events and log lines of a day, in bounded memory. A step costs the
 * assignment of two numbers; once per second they become points.
 */
import { packageVersion } from '../../../base/files/package.js';
import type { Summary } from '../../../base/proto/generated/event_pb.js';
import type { TaskEvent } from '../../../distributed/cluster/task/task-events.js';
import { nativeCallQueue } from '../../../tensorflow/session/native-call-queue.js';
import type { Server } from '../../../training/train/task/server.js';
import type { TrainingEvent } from '../../../training/train/task/training-events.js';
import type { PageEvent, TaskReport } from '../state.js';
import { describeTrainingEvent } from './describe-event.js';
import { describeInput } from './describe-input.js';
import { ExportList } from './exports.js';
import { Rate } from './rates.js';
import { columns, finishedUntil, Series } from './series.js';
import { SummaryMemory } from './summaries.js';
import { TaskLog } from './task-log.js';

const SAMPLE_MS = 1000;
const MOST_EVENTS = 500;
/** Curves of summaries; further tags are in the event files. */
const MOST_CURVES = 40;
const RATE = 'steps/s';
const GLOBAL_RATE = 'global steps/s';
const RECORD_RATE = 'records/s';

export interface RecorderOptions {
  readonly now?: () => number;
  /** The exports on the disk of this task; default: it makes none. */
  readonly exports?: ExportList;
}

export class Recorder implements Disposable {
  readonly log = new TaskLog();
  readonly summaries = new SummaryMemory();
  readonly exports: ExportList;
  readonly #now: () => number;
  readonly #series = new Map<string, Series>();
  readonly #events: PageEvent[] = [];
  #server: Server | undefined;
  #stops: (() => void)[] = [];
  #step: number | null = null;
  #loss: number | null = null;
  #isNew = false;
  #numbers = 0;
  #sampled: { readonly at: number; readonly own: number; readonly step: number | null } | undefined;
  readonly #traffic = new Rate();
  readonly #records = new Rate();
  #rates: { own: number | null; global: number | null } = { own: null, global: null };

  constructor({ now = Date.now, exports = new ExportList('', []) }: RecorderOptions = {}) {
    this.#now = now;
    this.exports = exports;
  }

  /** Records the events of a task and begins to sample. */
  attach(server: Server): void {
    this.#server = server;
    const timer = setInterval(() => this.#sample(), SAMPLE_MS).unref();
    this.#stops = [
      () => clearInterval(timer),
      server.task.events.on('*', (event) => this.#onMembership(event)),
      server.metrics.onEvent((event) => this.#onTraining(event)),
    ];
  }

  /** A step of training was made. */
  step(step: number, loss?: number): void {
    this.#step = step;
    if (loss !== undefined) this.#loss = loss;
    this.#isNew = true;
  }

  /** What a model or an evaluation has written. */
  summary({ value }: Pick<Summary, 'value'>, step: number): void {
    for (const one of value) {
      if (one.value.case === 'simpleValue') this.point(one.tag, step, one.value.value);
      else this.summaries.add(one, { at: this.#now(), step });
    }
  }

  point(name: string, step: number | null, value: number): void {
    let series = this.#series.get(name);
    if (series === undefined) {
      if (this.#series.size >= MOST_CURVES) return;
      series = new Series();
      this.#series.set(name, series);
    }
    series.add(this.#now(), step, value);
  }

  #sample(): void {
    const at = performance.now();
    const { task, metrics } = this.#server!;
    const own = metrics.steps.count;
    const step = this.#step;
    this.#traffic.sample(at, task.traffic.sent + task.traffic.received);
    this.#records.sample(at, metrics.leased.records);
    const before = this.#sampled;
    this.#sampled = { at, own, step };
    if (before === undefined || step === null) return;
    const secs = (at - before.at) / 1000;
    this.#rates = {
      own: (own - before.own) / secs,
      // After a restore the step is lower: that is no rate.
      global: before.step === null || step < before.step ? null : (step - before.step) / secs,
    };
    this.point(RATE, step, this.#rates.own ?? 0);
    if (this.#rates.global !== null) this.point(GLOBAL_RATE, step, this.#rates.global);
    if (metrics.leased.records > 0) this.point(RECORD_RATE, step, this.#records.perSecond ?? 0);
    if (this.#isNew && this.#loss !== null) this.point('loss', step, this.#loss);
    this.#isNew = false;
  }

  #onMembership(event: TaskEvent): void {
    if (event.type === 'back' && !event.replaced) return;
    if (event.type !== 'lost' && event.type !== 'back' && event.type !== 'joined' && event.type !== 'left')
      return;
    const { task, incarnation, host } = event.member;
    if (event.type === 'joined' && task === this.#server?.task.task) return;
    const what = {
      lost: 'is lost',
      back: 'is back, as another process',
      joined: 'has joined',
      left: 'has left',
    };
    this.#add({
      id: `${event.type} ${task} ${incarnation}`,
      at: this.#now(),
      type: event.type,
      task,
      text: `${what[event.type]} (${host})`,
    });
  }

  #onTraining(event: TrainingEvent): void {
    this.exports.onEvent(event, this.#now());
    // What has not ended is with the exports.
    if (event.type === 'published' && (event.state === 'publishing' || event.state === 'waiting')) return;
    const { task, identity } = this.#server!.task;
    this.#numbers += 1;
    const id = `${task} ${identity.incarnation} ${this.#numbers}`;
    this.#add({ id, at: this.#now(), task, ...describeTrainingEvent(event) });
    if (event.type === 'evaluated')
      for (const [name, value] of Object.entries(event.results))
        this.point(`eval/${name}`, event.step, value);
  }

  #add(event: PageEvent): void {
    this.#events.push(event);
    if (this.#events.length > MOST_EVENTS) this.#events.shift();
  }

  /** What this task is, and its curves and events since a time by its own clock. */
  report(since: number): Omit<TaskReport, 'files' | 'exports' | 'configuration'> {
    const server = this.#server!;
    const { task, metrics, engine } = server;
    const at = this.#now();
    const { user, system } = process.cpuUsage();
    return {
      at,
      until: finishedUntil(at),
      incarnation: task.identity.incarnation,
      release: packageVersion(),
      engine: engine.kind,
      uptimeMs: Math.round(performance.now()),
      residentBytes: process.memoryUsage.rss(),
      cpuSeconds: (user + system) / 1e6,
      sentBytes: task.traffic.sent,
      receivedBytes: task.traffic.received,
      trafficPerSecond: this.#traffic.perSecond,
      ownSteps: metrics.steps.count,
      stepsPerSecond: this.#rates.own,
      globalStepsPerSecond: this.#rates.global,
      loss: this.#loss !== null && Number.isFinite(this.#loss) ? this.#loss : null,
      nativeCalls: nativeCallQueue().running,
      leasesHeld: metrics.leased.held,
      leasedRecords: metrics.leased.records,
      recordsPerSecond: metrics.leased.records > 0 ? this.#records.perSecond : null,
      input: metrics.ledger ? describeInput(metrics.ledger()) : null,
      curves: [...this.#series]
        .map(([name, series]) => columns(name, series.since(since, at)))
        .filter(({ at: times }) => times.length > 0),
      events: this.#events.filter((event) => event.at > since),
    };
  }

  [Symbol.dispose](): void {
    for (const stop of this.#stops) stop();
    this.#stops = [];
  }
}
