/**
 * Marks on the ps that show how far a synchronous step is, for a chief that asks why it takes long:
 *
 * - Each device has, for each worker, the local step of its last complete gradients there. On the device of the global step
 *   the mark is removed when the worker takes a token. So a worker waits for a token if all its marks are set and equal.
 * - Each device has the attempt of the chief's step that took its gradients last. If it is another one than the current
 *   attempt, the current one still waits for gradients there.
 *
 * A mark is written in a stage that the step has anyway. None is checkpointed or has an initial value: one that no task has
 * written yet is not set.
 */
import { IndexedSlices } from '../../gradients/index.js';
import { parseDevice } from '../../graph/device.js';
import { currentGraph } from '../../graph/graph.js';
import type { Operation, Output } from '../../graph/operation.js';
import { group } from '../../ops/creation.js';
import * as raw from '../../ops/generated/index.js';
import { Tensor } from '../../tensor/tensor.js';
import type { Variable } from '../../variables/variable.js';
import type { GradientAndVariable } from '../optimizer.js';
import type { Share } from './sync-shares.js';

const GIVEN = 'sync_replicas/given';
const TAKEN = 'sync_replicas/taken';
/** No step has this number. */
const NONE = -1n;

export interface SyncMarksOptions {
  readonly globalStep: Variable;
  /** The variables that have gradients. */
  readonly variables: readonly Variable[];
  /** The tasks of all workers. */
  readonly workers: readonly string[];
  readonly own: string;
}

/** A mark, to be read only if it is set. */
export interface SyncMark {
  readonly isSet: Output<'bool'>;
  readonly value: Output<'int64'>;
}

export class SyncMarks {
  /** The number of an attempt to make a step, fed by the chief. Default: 0. */
  readonly attempt: Output<'int64'>;
  readonly #own: string;
  readonly #workers: readonly string[];
  /** A variable on each device; that of the global step is the first. */
  readonly #devices: ReadonlyMap<string, Variable>;
  /** Those of them that have gradients. */
  readonly #withGradients: ReadonlySet<string>;

  constructor({ globalStep, variables, workers, own }: SyncMarksOptions) {
    this.#own = own;
    this.#workers = workers;
    this.#withGradients = new Set(variables.map(({ device }) => device));
    this.#devices = new Map([globalStep, ...variables].map((variable) => [variable.device, variable]));
    this.attempt = raw.placeholderWithDefault(Tensor.of(0n), {
      shape: [],
      name: 'attempt',
    }) as Output<'int64'>;
  }

  /** The devices that have gradients. */
  get devices(): readonly string[] {
    return [...this.#devices.keys()].filter((device) => this.#withGradients.has(device));
  }

  #on<T>(device: string, body: () => T): T {
    return currentGraph().colocateWith((this.#devices.get(device) as Variable).handle, body);
  }

  #handle(device: string, name: string): Output<'resource'> {
    return this.#on(device, () => raw.varHandleOp({ dtype: 'int64', shape: [], sharedName: name }));
  }

  #write(device: string, name: string, value: Output | Tensor, after: readonly Operation[]): Operation {
    const handle = this.#handle(device, name);
    return this.#on(device, () =>
      currentGraph().controlDependencies(after, () => raw.assignVariableOp(handle, value)),
    );
  }

  /** This worker has added its gradients. */
  given(
    shares: readonly Share[],
    pairs: readonly GradientAndVariable[],
    localStep: Variable,
  ): readonly Operation[] {
    const step = localStep.read();
    const computed = pairs.flatMap(([gradient]) => {
      if (gradient === null) return [];
      return gradient instanceof IndexedSlices ? gradient.values.op : gradient.op;
    });
    return [...this.#devices.keys()].map((device) => {
      const added = shares.flatMap(({ variable, give }) => (variable.device === device ? [give] : []));
      return this.#write(device, givenBy(this.#own), step, added.length > 0 ? added : computed);
    });
  }

  /** This worker waits no more: it has a token, or begins. */
  begins(): Operation {
    const [first] = this.#devices.keys();
    return this.#write(first as string, givenBy(this.#own), Tensor.of(NONE), []);
  }

  /** The current attempt of the chief has taken these gradients. */
  taken(gradients: readonly GradientAndVariable[]): Operation {
    return group(
      this.devices.map((device) => {
        const ops = gradients.flatMap(([gradient, variable]) => {
          if (variable.device !== device || gradient === null) return [];
          return gradient instanceof IndexedSlices ? gradient.values.op : gradient.op;
        });
        return this.#write(device, TAKEN, this.attempt, ops);
      }),
    );
  }

  #read(device: string, name: string): SyncMark {
    const handle = this.#handle(device, name);
    return this.#on(device, () => ({
      isSet: raw.varIsInitializedOp(handle),
      value: raw.readVariableOp(handle, { dtype: 'int64' }) as Output<'int64'>,
    }));
  }

  /** The marks of each worker, on all devices. */
  ofWorkers(): readonly (readonly SyncMark[])[] {
    return this.#workers.map((worker) =>
      [...this.#devices.keys()].map((device) => this.#read(device, givenBy(worker))),
    );
  }

  /** The last attempt that took the gradients of each of `devices`. */
  ofDevices(): readonly SyncMark[] {
    return this.devices.map((device) => this.#read(device, TAKEN));
  }
}

/** Whether marks of a worker, undefined if they are not set, show that it waits for a token. */
export const areWaiting = (marks: readonly (bigint | undefined)[]): boolean =>
  marks[0] !== undefined && marks[0] !== NONE && marks.every((mark) => mark === marks[0]);

function givenBy(worker: string): string {
  const { job, task } = parseDevice(worker);
  return `${GIVEN}/${job}/${task}`;
}
