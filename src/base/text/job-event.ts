/**
 * What a task reports, as data: the lines of `shoal run --json`. Most events belong to a line of the log, which is their
 * message; a log that is written for people prints only that.
 */
/** A restored checkpoint, in the event of a recovery. */
export interface RestoredInEvent {
  /** The name of the checkpoint, for example `model.ckpt-100`. */
  readonly checkpoint: string;
  readonly step: number;
  /** The tasks that hold a copy of it, for example `ps/0`. */
  readonly places: readonly string[];
  /** The tasks whose variables were restored; default: all. */
  readonly tasks?: readonly string[] | undefined;
  /** The steps since the checkpoint, as far as known. */
  readonly steps?: number | undefined;
  /** Whether these steps are made again. */
  readonly isRepeated: boolean;
}

/** A trial of a sweep, in its events and in the file `trial.json` of its directory. */
export interface TrialReport {
  /** Its name, which is also that of its directory: `rate=0.1+dim=8`. */
  readonly trial: string;
  /** The parameters that the sweep sets. */
  readonly params: Readonly<Record<string, string | number | boolean>>;
  readonly state: 'waiting' | 'running' | 'done' | 'failed' | 'stopped';
  /** The directory of its job. */
  readonly dir: string;
  /** How often it was started. */
  readonly starts: number;
  readonly step?: number | undefined;
  /** Of the last training step that was reported. */
  readonly loss?: number | undefined;
  /** The last evaluation. */
  readonly metrics?: Readonly<Record<string, number>> | undefined;
  /** Small outputs of the model. */
  readonly outputs?: Readonly<Record<string, unknown>> | undefined;
  /** The directory of the last export. */
  readonly exported?: string | undefined;
  /** How long it ran, in all its starts. */
  readonly seconds: number;
  readonly exitCode?: number | null | undefined;
  readonly error?: { readonly code?: string | undefined; readonly message: string } | undefined;
}

/** The fields of each event, by its name. */
export interface JobEventFields {
  /** Training begins in this process, at this step. */
  readonly start: { readonly job: string; readonly step: number; readonly lastStep: number };
  /** Training has reached a step; reported every `logEverySecs`. */
  readonly step: {
    readonly step: number;
    readonly lastStep: number;
    readonly stepsPerSecond: number;
    readonly loss: number;
    /** Those outputs of the model that are scalars, of this step. */
    readonly outputs?: Readonly<Record<string, unknown>> | undefined;
  };
  /** A checkpoint is saved. */
  readonly save: { readonly step: number; readonly path: string; readonly seconds: number };
  /** A checkpoint is restored. */
  readonly restore: { readonly step: number; readonly checkpoint: string; readonly bytes: number };
  /** Training continues after the loss of a task. */
  readonly recovery: {
    /** The step at which training continues, as far as known. */
    readonly step?: number | undefined;
    /** How long training was interrupted, if this task was there. */
    readonly seconds?: number | undefined;
    readonly mode: 'exact' | 'partial';
    /** The tasks that were lost, for example `ps 1`. */
    readonly lost: readonly string[];
    /** What this task, as chief, has restored. */
    readonly restored?: RestoredInEvent | undefined;
  };
  /** A checkpoint, or the model in training, is evaluated. */
  readonly evaluation: { readonly step: number; readonly metrics: Readonly<Record<string, number>> };
  /** The model is exported. */
  readonly export: {
    readonly step: number;
    readonly version: string;
    readonly path: string;
    /** The metric by which an evaluator has chosen it. */
    readonly metric?: { readonly name: string; readonly value: number } | undefined;
  };
  /** Training stops before its last step. */
  readonly earlyStop: {
    readonly reason: 'noImprovement' | 'nan';
    readonly step?: number | undefined;
    readonly metric?: string | undefined;
    readonly best?: { readonly value: number; readonly step: number } | undefined;
  };
  /** The training of a worker has ended. */
  readonly end: {
    readonly step: number;
    readonly ownSteps: number;
    /** The last step was made; training has ended before it by itself; or it was interrupted and can resume. */
    readonly reason: 'lastStep' | 'early' | 'interrupted';
    readonly loss?: number | undefined;
    readonly evaluation?: Readonly<Record<string, number>> | undefined;
    /** Those outputs of the model that have few values. */
    readonly outputs: Readonly<Record<string, unknown>>;
    /** The directory of the last export. */
    readonly exported?: string | undefined;
  };
  /** The launcher has started the process of a task. */
  readonly taskStarted: { readonly member: string; readonly pid: number; readonly address: string };
  /** The process of a task has ended. */
  readonly taskEnded: {
    readonly member: string;
    readonly pid: number;
    readonly code: number | null;
    readonly signal: string | null;
  };
  /** The launcher starts a task again. */
  readonly taskRestarted: { readonly member: string; readonly restarts: number; readonly why: string };
  /** A task has noticed that another one is gone. */
  readonly taskLost: { readonly member: string; readonly why: string };
  /** A task that was lost is back. */
  readonly taskReturned: { readonly member: string; readonly isNewProcess: boolean };
  /** The state of a cluster, as its launcher sees it. */
  readonly progress: {
    readonly step?: number | undefined;
    readonly lastStep?: number | undefined;
    readonly stepsPerSecond?: number | undefined;
    readonly alive: number;
    readonly tasks: number;
  };
  /** The task ends with an error. */
  readonly error: {
    readonly code?: string | undefined;
    readonly hint?: string | undefined;
    /** The place in the user's program. */
    readonly at?: string | undefined;
    /** Of an error that is not Shoal's. */
    readonly stack?: string | undefined;
  };
  /** A trial of a sweep has begun or ended. */
  readonly trial: TrialReport;
  /** A sweep has ended; the best trial is first. */
  readonly sweep: {
    readonly metric: string;
    readonly mode: 'min' | 'max';
    readonly best?: string | undefined;
    readonly trials: readonly TrialReport[];
  };
  /** Any other line, also what the job prints itself. */
  readonly log: Readonly<Record<never, never>>;
}

export type JobEventName = keyof JobEventFields;

/** An event without when, where and in which words it was reported. */
export type JobEventData = {
  readonly [K in JobEventName]: { readonly event: K } & JobEventFields[K];
}[JobEventName];

export interface JobEventHeader {
  /** ISO 8601, in UTC. */
  readonly time: string;
  /** The task that reports it: `worker 0`, `ps 1`, `evaluator 0`, or `shoal`, the command itself. */
  readonly task: string;
  readonly level: 'debug' | 'info' | 'warn' | 'error';
  /** The line of the log. */
  readonly message: string;
  /** The trial of a sweep that the task belongs to. */
  readonly trial?: string;
}

/** One event. In JSON, numbers that JSON does not have are the strings "NaN", "Infinity" and "-Infinity". */
export type JobEvent = JobEventData & JobEventHeader;
