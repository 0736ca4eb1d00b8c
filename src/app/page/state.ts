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
  'published',
  'publish-failed',
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

/** The ledger of data shards, on the chief. Epochs overlap: while the last records of one are leased, the next has begun. */
export interface PageInput {
  /** The epoch whose records are being leased, from 0. */
  readonly epoch: number;
  /** Null: without end. */
  readonly epochs: number | null;
  /** The records of one epoch, and its data shards. */
  readonly records: number;
  readonly shards: number;
  /** The data shards of this epoch of which nothing was leased yet. */
  readonly unleasedShards: number;
  /** Parts of data shards that were given back, to be leased again. */
  readonly returned: number;
  /** Records consumed, over all epochs. */
  readonly consumed: number;
  /** Leases, the records in them that are not consumed yet, and the workers that hold them. */
  readonly leases: number;
  readonly leasedRecords: number;
  readonly holders: number;
  /** Workers that wait until others have consumed what they hold. */
  readonly waiting: number;
}

/** What a serving process has of an export. */
export const PUBLISH_STATES = ['publishing', 'published', 'waiting', 'refused', 'failed'] as const;

export interface PagePublication {
  readonly server: string;
  readonly state: (typeof PUBLISH_STATES)[number];
  readonly at: number;
  readonly text: string;
}

/** A version of the model that was exported. */
export interface PageExport {
  readonly version: string;
  /** The task that made it, and the directory on its disk. */
  readonly task: string;
  readonly path: string;
  readonly step: number;
  readonly at: number;
  /** Null: not known. */
  readonly ms: number | null;
  readonly bytes: number | null;
  readonly publications: readonly PagePublication[];
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
  /** Bytes sent and received per second, in the last seconds. */
  readonly trafficPerSecond: number | null;
  readonly ownSteps: number;
  readonly stepsPerSecond: number | null;
  readonly globalStepsPerSecond: number | null;
  readonly loss: number | null;
  /** Calls of TensorFlow that run now in this process. */
  readonly nativeCalls: number;
  readonly leasesHeld: number;
  readonly leasedRecords: number;
  readonly recordsPerSecond: number | null;
  /** Null: the input is not leased, or this is not the chief. */
  readonly input: PageInput | null;
  /** Curves and events since the time that was asked for. */
  readonly curves: readonly CurvePoints[];
  readonly events: readonly PageEvent[];
  /** The files of checkpoints on its disk. */
  readonly files: readonly StoredFile[];
  /** The newest exports that it has made, the newest first. */
  readonly exports: readonly PageExport[];
  readonly configuration: readonly (readonly [string, string])[];
}

/** What the page shows of a report; the rest is shown elsewhere. */
export type TaskNumbers = Omit<
  TaskReport,
  'curves' | 'events' | 'files' | 'exports' | 'input' | 'configuration'
>;

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

/** One of several jobs that do not run, side by side. */
export interface PageRun {
  readonly name: string;
  readonly directory: string;
  readonly lastStep: number | null;
  /** The last value of its loss. */
  readonly loss: number | null;
  /** The parameters of a trial of a sweep, and how it ended. */
  readonly params: string;
  readonly state: string;
}

export interface PageState {
  readonly cluster: string;
  /** Rises with each update. */
  readonly cursor: number;
  readonly now: number;
  /** False for directories: there are no updates, and the complete state is asked for again. */
  readonly live: boolean;
  readonly self: string | null;
  readonly chief: string | null;
  readonly epoch: number;
  readonly lastStep: number | null;
  readonly everyMs: number;
  readonly tasks: readonly TaskState[];
  /** Empty: one job. */
  readonly runs: readonly PageRun[];
  readonly events: readonly PageEvent[];
  readonly checkpoints: readonly PageCheckpoint[];
  /** Of all tasks, the newest first. */
  readonly exports: readonly PageExport[];
  readonly input: PageInput | null;
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

/** A variable of the model, as the graph has it. */
export interface ModelVariable {
  readonly name: string;
  readonly dtype: string;
  /** As text: `[784, 10]`; a dimension that is not known is `?`. */
  readonly shape: string;
  readonly bytes: number;
  /** The task that holds it: `ps/0`; empty: that of the process. */
  readonly task: string;
}

/** What a module of the model consists of, as a picture: a module, a variable or a single op. */
export interface ModelUnit {
  readonly name: string;
  readonly kind: 'module' | 'variable' | 'op' | 'rest';
  /** The type of an op; of the rest, how many they are. */
  readonly text: string;
  /** The shape of its first output. */
  readonly shape: string;
}

/** A name scope. */
export interface ModelModule {
  /** Empty: the graph itself. */
  readonly path: string;
  /** Those of the modules in it are counted too. */
  readonly ops: number;
  readonly variables: number;
  readonly bytes: number;
  /** The tasks of its ops and variables. */
  readonly tasks: readonly string[];
  /** How tensors flow in it; empty: not of interest, such as gradients. An edge has the positions of two units. */
  readonly units: readonly ModelUnit[];
  readonly edges: readonly (readonly [number, number])[];
}

export interface PageModel {
  readonly ops: number;
  /** The graph first, each module before those in it. */
  readonly modules: readonly ModelModule[];
  /** Modules that are not listed, as there are too many. */
  readonly moreModules: number;
  /** The largest ones. */
  readonly variables: readonly ModelVariable[];
  readonly moreVariables: number;
  /** Complete: of all variables. */
  readonly placement: readonly {
    readonly task: string;
    readonly variables: number;
    readonly bytes: number;
  }[];
}

/** The distribution of the values of a summary at a step: how many values are in each of equally wide parts. */
export interface HistogramColumn {
  readonly at: number;
  readonly step: number;
  readonly least: number;
  readonly most: number;
  readonly mean: number;
  /** In parts of 1,000 of all values. */
  readonly parts: readonly number[];
}

export interface PageHistogram {
  readonly name: string;
  readonly task: string;
  readonly columns: readonly HistogramColumn[];
}

export interface PageText {
  readonly name: string;
  readonly task: string;
  readonly at: number;
  readonly step: number;
  readonly text: string;
}

/** The histograms and texts of summaries. */
export interface PageSummaries {
  readonly histograms: readonly PageHistogram[];
  readonly texts: readonly PageText[];
  /** Changes with each of them. */
  readonly version: string;
}
