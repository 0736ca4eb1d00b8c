/**
 * ClusterSpec: the tasks of a cluster and the addresses of their agents. As in TensorFlow a job is a list of addresses,
 * or a map from task index to address for a sparse job.
 *
 * Every error names its position: `cluster.ps[1]`, `--ps_hosts[1]`, `cluster.worker["3"]`.
 */
import { ShoalError } from '../../../base/errors/errors.js';
import { formatAddress, parseAddress } from './address.js';
import { isJobName, type TaskId, taskId } from './task-id.js';

export type JobSpec = readonly string[] | Readonly<Record<string, string>>;
export type ClusterDict = Readonly<Record<string, JobSpec>>;

export interface ClusterSpecOptions {
  /** The position of a job in error messages; default: `cluster.ps` for job ps. */
  readonly where?: (job: string) => string;
  /** The allowed jobs; default: any. */
  readonly knownJobs?: readonly string[];
}

/** The jobs that have a role in training. */
export const TRAINING_JOBS = ['chief', 'worker', 'ps', 'evaluator'] as const;

export interface SpecTask {
  readonly id: TaskId;
  readonly job: string;
  readonly index: number;
  readonly address: string;
}

function specError(where: string, why: string, hint?: string): ShoalError {
  return new ShoalError('SHOAL_CONFIG', `${where}: ${why}`, { hint });
}

export class ClusterSpec {
  readonly #jobs: ReadonlyMap<string, ReadonlyMap<number, SpecTask>>;

  constructor(cluster: ClusterDict | ClusterSpec, options: ClusterSpecOptions = {}) {
    this.#jobs = cluster instanceof ClusterSpec ? cluster.#jobs : readJobs(cluster, options);
  }

  get jobs(): readonly string[] {
    return [...this.#jobs.keys()];
  }

  numTasks(job: string): number {
    return this.#job(job).size;
  }

  taskIndices(job: string): readonly number[] {
    return [...this.#job(job).keys()];
  }

  taskAddress(job: string, index: number): string {
    const task = this.#job(job).get(index);
    if (task !== undefined) return task.address;
    throw specError(
      `cluster.${job}`,
      `task index ${index} is out of range`,
      `job ${job} has the tasks ${this.taskIndices(job).join(', ')}`,
    );
  }

  /** The addresses of a job by task index; undefined for a gap in a sparse job. */
  jobTasks(job: string): readonly (string | undefined)[] {
    const tasks = this.#job(job);
    return Array.from({ length: Math.max(...tasks.keys()) + 1 }, (_, index) => tasks.get(index)?.address);
  }

  /** Every task, job by job. */
  get tasks(): readonly SpecTask[] {
    return [...this.#jobs.values()].flatMap((tasks) => [...tasks.values()]);
  }

  has(job: string, index?: number): boolean {
    const tasks = this.#jobs.get(job);
    return tasks !== undefined && (index === undefined || tasks.has(index));
  }

  addressOf(task: TaskId): string | undefined {
    return this.tasks.find(({ id }) => id === task)?.address;
  }

  /** The task of the chief job, or worker 0 if there is no such job. */
  get chief(): TaskId | undefined {
    const job = this.#jobs.has('chief') ? 'chief' : 'worker';
    const tasks = this.#jobs.get(job);
    return job === 'chief' ? [...(tasks?.values() ?? [])][0]?.id : tasks?.get(0)?.id;
  }

  isChief(task: TaskId): boolean {
    return task === (this.chief ?? taskId(this.#jobs.has('chief') ? 'chief' : 'worker', 0));
  }

  /** The constructor's form: a list for a job without gaps, a map for a sparse one. */
  asDict(): ClusterDict {
    return Object.fromEntries(
      [...this.#jobs].map(([job, tasks]) => {
        const dense = [...tasks.keys()].every((index, position) => index === position);
        const entries = [...tasks.values()].map(({ index, address }) => [String(index), address] as const);
        return [job, dense ? entries.map(([, address]) => address) : Object.fromEntries(entries)];
      }),
    );
  }

  equals(other: ClusterSpec): boolean {
    return JSON.stringify(this.asDict()) === JSON.stringify(other.asDict());
  }

  toJSON(): ClusterDict {
    return this.asDict();
  }

  #job(job: string): ReadonlyMap<number, SpecTask> {
    const tasks = this.#jobs.get(job);
    if (tasks !== undefined) return tasks;
    throw specError(
      'cluster',
      `there is no job "${job}"`,
      `the jobs are ${this.jobs.join(', ') || '(none)'}`,
    );
  }
}

function readJobs(cluster: ClusterDict, options: ClusterSpecOptions): Map<string, Map<number, SpecTask>> {
  const { where = (job) => `cluster.${job}`, knownJobs } = options;
  const jobs = new Map<string, Map<number, SpecTask>>();
  const owner = new Map<string, string>();
  for (const [job, spec] of Object.entries(cluster)) {
    const place = where(job);
    if (!isJobName(job))
      throw specError(place, `"${job}" is not a valid job name`, 'a job name has letters, digits and _');
    if (knownJobs !== undefined && !knownJobs.includes(job)) {
      throw specError(place, `unknown job "${job}"`, `the jobs are ${knownJobs.join(', ')}`);
    }
    const tasks = readTasks(job, spec, place);
    for (const [position, task] of tasks) {
      const other = owner.get(task.address);
      if (other !== undefined) {
        throw specError(
          position,
          `address ${task.address} is already used by ${other}`,
          'give every task its own port',
        );
      }
      owner.set(task.address, position);
    }
    jobs.set(job, new Map(tasks.map(([, task]) => [task.index, task])));
  }
  const chiefs = jobs.get('chief');
  if (chiefs !== undefined && chiefs.size > 1) {
    throw specError(
      positionOf(cluster.chief!, where('chief'), [...chiefs.keys()][1]!),
      'there are two chiefs',
      'a cluster has one chief; make the others workers',
    );
  }
  return jobs;
}

function positionOf(spec: JobSpec, place: string, index: number): string {
  return Array.isArray(spec) ? `${place}[${index}]` : `${place}["${index}"]`;
}

function readTasks(job: string, spec: JobSpec, place: string): [position: string, task: SpecTask][] {
  if (typeof spec !== 'object' || spec === null) {
    throw specError(place, `expected a list of addresses, or a map from task index to address`);
  }
  const sparse = !Array.isArray(spec);
  const entries = Object.entries(spec).map(([key, address]): [string, SpecTask] => {
    const position = sparse ? `${place}["${key}"]` : `${place}[${key}]`;
    if (!/^(0|[1-9]\d{0,8})$/.test(key)) {
      throw specError(position, `"${key}" is not a task index`, 'an index is an integer from 0');
    }
    if (typeof address !== 'string') throw specError(position, 'expected an address as a string');
    const index = Number(key);
    return [
      position,
      { id: taskId(job, index), job, index, address: formatAddress(parseAddress(address, position)) },
    ];
  });
  if (entries.length === 0) {
    throw specError(place, 'the job is empty', `list at least one address, or omit job ${job}`);
  }
  return entries.sort(([, a], [, b]) => a.index - b.index);
}
