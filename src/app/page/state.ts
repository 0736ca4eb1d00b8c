/** What the page shows, as JSON. The page's own code imports these types: nothing here runs. */

/** A task as the members of the cluster know it. `shoal status --json` prints the same records. */
export interface MemberState {
  readonly task: string;
  readonly incarnation: number;
  readonly first: number;
  readonly agentAddress: string;
  readonly host: string;
  readonly pid: number;
  readonly step: number | null;
  readonly status: 'alive' | 'suspect' | 'dead' | 'left';
  readonly silentMs: number;
  readonly busyMs?: number | undefined;
}

/** Points of one curve, in columns. A point is the mean of its interval. */
export interface CurvePoints {
  readonly name: string;
  /** Milliseconds since 1970, by the clock of the task. */
  readonly at: readonly number[];
  readonly step: readonly (number | null)[];
  readonly value: readonly number[];
}

export const PAGE_EVENTS = [
  'saved',
  'save-failed',
  'lost',
  'back',
  'joined',
  'left',
  'recovered',
  'exported',
  'evaluated',
] as const;
export type PageEventType = (typeof PAGE_EVENTS)[number];

export interface PageEvent {
  /** The same for one event that several tasks have seen. */
  readonly id: string;
  readonly at: number;
  readonly type: PageEventType;
  /** The task that the event is about, or that did it. */
  readonly task: string;
  readonly text: string;
  readonly step?: number | undefined;
  readonly ms?: number | undefined;
}

/** A file of a checkpoint on the disk of a task. */
export interface StoredFile {
  readonly name: string;
  readonly size: number;
}

/** What a task reports about itself. */
export interface TaskReport {
  /** The time of the report, by the clock of the task. */
  readonly at: number;
  /** Curves and events are complete up to this time. */
  readonly until: number;
  readonly incarnation: number;
  readonly release: string;
  readonly engine: string;
  readonly uptimeMs: number;
  readonly residentBytes: number;
  readonly cpuSeconds: number;
  readonly sentBytes: number;
  readonly receivedBytes: number;
  readonly ownSteps: number;
  readonly stepsPerSecond: number | null;
  readonly globalStepsPerSecond: number | null;
  readonly loss: number | null;
  /** Calls of TensorFlow that run now in this process. */
  readonly nativeCalls: number;
  readonly leasesHeld: number;
  readonly leasedRecords: number;
  /** Curves and events since the time that was asked for. */
  readonly curves: readonly CurvePoints[];
  readonly events: readonly PageEvent[];
  /** The files of checkpoints on its disk. */
  readonly files: readonly StoredFile[];
  readonly configuration: readonly (readonly [string, string])[];
}

/** What the page shows of a report; the rest is shown elsewhere. */
export type TaskNumbers = Omit<TaskReport, 'curves' | 'events' | 'files' | 'configuration'>;

export interface TaskState extends MemberState {
  /** Null: it has not answered yet. */
  readonly report: TaskNumbers | null;
  /** The age of the report; more than a few seconds: the task does not answer. */
  readonly reportAgeMs: number | null;
  readonly curves: readonly CurvePoints[];
}

/** `unknown`: the task does not answer. */
export type CopyHealth = 'good' | 'missing' | 'damaged' | 'unknown';

export interface PageCheckpoint {
  readonly name: string;
  readonly step: number;
  readonly attempt: string;
  readonly savedAtMs: number;
  readonly bytes: number;
  readonly tensors: number;
  readonly files: readonly {
    readonly file: string;
    readonly size: number;
    readonly copies: Readonly<Record<string, CopyHealth>>;
  }[];
}

export interface PageState {
  readonly cluster: string;
  /** Rises with each update. */
  readonly cursor: number;
  readonly now: number;
  /** Undefined for the directory of a job that does not run. */
  readonly live: boolean;
  readonly self: string | null;
  readonly chief: string | null;
  readonly epoch: number;
  readonly lastStep: number | null;
  readonly everyMs: number;
  readonly tasks: readonly TaskState[];
  readonly events: readonly PageEvent[];
  readonly checkpoints: readonly PageCheckpoint[];
  readonly configuration: readonly (readonly [string, string])[];
}

export interface LogLine {
  readonly number: number;
  readonly at: number;
  readonly level: string;
  readonly text: string;
}

export interface LogPart {
  readonly lines: readonly LogLine[];
  /** Lines before these are gone. */
  readonly dropped: boolean;
}
