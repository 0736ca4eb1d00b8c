/**
 * What a step of a worker leaves on each ps that it updates, so that the chief can tell, when the worker is lost,
 * whether its last step was applied there: a mark when it begins to be applied, and one when it has been.
 *
 * The updates of a ps wait until everything that they need from the worker is there; then the ps looks whether the
 * step's lease still counts, marks, updates, and marks again, waiting for nobody. So a worker that dies leaves a ps
 * with the whole of a step or nothing of it, and one that was given up while it slept is turned away.
 */
import { isShoalError } from '../errors/errors.js';
import { type Gradient, IndexedSlices } from '../gradients/index.js';
import { Graph } from '../graph/graph.js';
import type { Operation, Output } from '../graph/operation.js';
import { constant, placeholder } from '../ops/creation.js';
import * as raw from '../ops/generated/index.js';
import type { UpdateGuard } from '../optimizers/optimizer.js';
import type { Session } from '../session/session.js';
import { Tensor } from '../tensor/tensor.js';
import type { Variable } from '../variables/variable.js';
import type { Range } from './ranges.js';

/** What a step says when its lease does not count any more. */
const VOID = 'the lease of this step is void';
/** Above any lease: nobody is let in. */
const CLOSED = 2n ** 62n;

/** Whether a step was turned away by a ps: its worker is to begin anew. */
export const isVoidStep = (error: unknown): boolean =>
  isShoalError(error, 'SHOAL_TF_INVALID_ARGUMENT') && error.message.includes(VOID);

/** What a ps knows of the step of one lane: its lease and the records of it. */
export interface Mark extends Range {
  readonly lease: number;
}

type Pair = readonly [Gradient, Variable];
type Scalar = Output<'int64'>;
type Place = readonly [lease: Scalar, from: Scalar, to: Scalar, lane: Scalar];

const PS = /^\/job:ps(?:\/replica:\d+)?\/task:(\d+)/;

/** The marks that the steps of this worker's graph make, on the device of each ps that they update. */
export class StepMarks implements UpdateGuard {
  readonly #worker: string;
  readonly #position: Output<'int64'>;
  readonly #lane: Output<'int64'>;
  /** On each device: lease, from, to and lane, as they came there. */
  readonly #places = new Map<string, Place>();
  #devices: readonly (string | undefined)[] = [];

  /**
   * @param position of the batch: lease, from, to.
   * @param lane which of the steps under way at once this is.
   */
  constructor(worker: string, position: Output<'int64'>, lane: Output<'int64'>) {
    this.#worker = worker;
    this.#position = position;
    this.#lane = lane;
  }

  /** The devices with marks. */
  get devices(): readonly string[] {
    return [...this.#places.keys()];
  }

  admit(pairs: readonly Pair[]): readonly Pair[] {
    const { graph } = this.#position;
    const told = raw.concatV2([this.#position, raw.expandDims(this.#lane, int(0))], int(0), {
      name: 'step_mark',
    }) as Output<'int64'>;
    this.#devices = pairs.map(([, { device }]) => PS.exec(device)?.[0]);
    const admitted = [...pairs];
    for (const device of new Set(this.#devices)) {
      if (device === undefined) continue;
      const members = [...pairs.keys()].filter((i) => this.#devices[i] === device);
      const own = members.map((i) => pairs[i] as Pair);
      onDevice(graph, device, () => {
        const { gradients, place } = this.#gate(graph, own, told);
        for (const [k, i] of members.entries()) admitted[i] = [gradients[k] as Gradient, (own[k] as Pair)[1]];
        this.#places.set(device, place);
      });
    }
    return admitted;
  }

  /** Lets the gradients of one ps by when all are there and the lease counts. */
  #gate(graph: Graph, pairs: readonly Pair[], told: Output<'int64'>) {
    const arrived = pairs.map(([gradient]) => eachTensor(gradient, (tensor) => raw.identity(tensor)));
    const came = graph.controlDependencies(arrived.flatMap(tensorsOf), () => raw.identity(told));
    const place = raw.unpack(came, { num: 4 }) as unknown as Place;
    const checked = graph.controlDependencies([came], () => {
      const fence = raw.readVariableOp(handleOf(this.#worker, 'fence'), { dtype: 'int64' });
      return raw.assert(raw.greater(place[0], fence), [constant(VOID)]);
    });
    const begun = graph.controlDependencies([checked], () => this.#mark('begun', place));
    const gradients = graph.controlDependencies([begun], () =>
      arrived.map((gradient) => eachTensor(gradient, (tensor) => raw.identity(tensor))),
    );
    return { gradients, place };
  }

  ended(updates: readonly Operation[]): readonly Operation[] {
    const { graph } = this.#position;
    return [...this.#places].map(([device, place]) =>
      onDevice(graph, device, () =>
        graph.controlDependencies(
          updates.filter((_, i) => this.#devices[i] === device),
          () => this.#mark('ended', place),
        ),
      ),
    );
  }

  #mark(kind: 'begun' | 'ended', [lease, from, to, lane]: Place): Operation {
    return raw.resourceScatterUpdate(handleOf(this.#worker, kind), lane, raw.pack([lease, from, to]));
  }
}

type Kind = 'fence' | 'begun' | 'ended';

/** A variable of the ps that is in no collection: neither saved nor given first values by whoever finds none. */
const handleOf = (worker: string, kind: Kind): Output<'resource'> =>
  raw.varHandleOp({
    dtype: 'int64',
    shape: null,
    sharedName: `input_marks/${worker.replace(/^\/job:|\/task/g, '')}/${kind}`,
  }) as Output<'resource'>;

function eachTensor(gradient: Gradient, to: (tensor: Output) => Output): Gradient {
  if (!(gradient instanceof IndexedSlices)) return to(gradient);
  return new IndexedSlices(to(gradient.values), to(gradient.indices), gradient.denseShape);
}

const tensorsOf = (gradient: Gradient): Output[] =>
  gradient instanceof IndexedSlices ? [gradient.values, gradient.indices] : [gradient];

const onDevice = <T>(graph: Graph, device: string, build: () => T): T =>
  graph.device(null, () => graph.device(device, () => graph.controlDependencies(null, build)));

const int = (value: number) => constant(Tensor.of(value, { dtype: 'int32' }));

interface Ops {
  readonly values: Output<'int64'>;
  readonly fence: readonly Operation[];
  readonly clear: readonly Operation[];
  readonly begun: readonly Output<'int64'>[];
  readonly ended: readonly Output<'int64'>[];
}

/** What became of the last steps of a worker. */
export interface LastSteps {
  /** Steps that all ps have applied. */
  readonly applied: readonly Mark[];
  /** Steps that some have applied and others have not, or not wholly, as far as can be told. */
  readonly partial: readonly Mark[];
}

/** A session over the ps. */
export type MarkSession = Pick<Session, 'run' | 'close'>;

/** The chief's view of the marks: it lets workers in, turns them away, and reads what they left. */
export class MarkKeeper implements AsyncDisposable {
  readonly #graph = new Graph();
  readonly #session: MarkSession;
  readonly #devices: readonly string[];
  readonly #lanes: number;
  readonly #ops = new Map<string, Ops>();

  /** @param lanes how many steps a worker has under way at once. */
  constructor(open: (graph: Graph) => MarkSession, devices: readonly string[], lanes: number) {
    this.#devices = devices;
    this.#lanes = lanes;
    this.#session = open(this.#graph);
  }

  #opsOf(worker: string): Ops {
    const known = this.#ops.get(worker);
    if (known) return known;
    const graph = this.#graph;
    const made = graph.asDefault(() => {
      const values = placeholder({ dtype: 'int64', shape: [] });
      const each = <T>(build: () => T): T[] => this.#devices.map((device) => graph.device(device, build));
      const nothing = () => constant(Tensor.zeros([this.#lanes, 3], 'int64'));
      const read = (kind: Kind) => raw.readVariableOp(handleOf(worker, kind), { dtype: 'int64' });
      return {
        values,
        fence: each(() => raw.assignVariableOp(handleOf(worker, 'fence'), values)),
        clear: (['begun', 'ended'] as const).flatMap((kind) =>
          each(() => raw.assignVariableOp(handleOf(worker, kind), nothing())),
        ),
        begun: each(() => read('begun') as Output<'int64'>),
        ended: each(() => read('ended') as Output<'int64'>),
      };
    });
    this.#ops.set(worker, made);
    return made;
  }

  /** From here on steps count whose leases have higher ids. Nothing of the worker may be under way. */
  async open(worker: string, above: number, signal?: AbortSignal): Promise<void> {
    const { clear } = this.#opsOf(worker);
    await this.#session.run(clear, within(signal));
    await this.#setFence([worker], BigInt(above), signal);
  }

  /** Steps of these workers do not count any more. Those that were let in before may take a moment to be applied. */
  close(workers: readonly string[], signal?: AbortSignal): Promise<void> {
    return this.#setFence(workers, CLOSED, signal);
  }

  async #setFence(workers: readonly string[], value: bigint, signal?: AbortSignal): Promise<void> {
    await Promise.all(
      workers.map((worker) => {
        const { fence, values } = this.#opsOf(worker);
        return this.#session.run(fence, { ...within(signal), feeds: new Map([[values, Tensor.of(value)]]) });
      }),
    );
  }

  /** Looks at the steps of leases that a worker holds. It must have been turned away for long enough. */
  async lastSteps(worker: string, held: readonly number[], signal?: AbortSignal): Promise<LastSteps> {
    const { begun, ended } = this.#opsOf(worker);
    const tables = (await this.#session.run([...begun, ...ended], within(signal))).map(rowsOf);
    const applied: Mark[] = [];
    const partial: Mark[] = [];
    for (let lane = 0; lane < this.#lanes; lane++) {
      const rows = tables.map((table) => table[lane] as Mark);
      const [first] = rows as [Mark];
      const isSame = rows.every((row) => row.lease === first.lease && row.from === first.from);
      const own = rows.filter(({ lease }) => held.includes(lease));
      if (own.length === 0) continue;
      if (isSame) applied.push(first);
      // Of two positions the later one is the step in doubt.
      else partial.push(own.reduce((a, b) => ((a.lease - b.lease || a.from - b.from) < 0 ? b : a)));
    }
    return { applied, partial };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#session.close().catch(() => {
      // Nothing of it is needed any more, and a ps that was lost may keep it from ending.
    });
  }
}

const within = (signal: AbortSignal | undefined) => ({ timeoutMs: 30_000, ...(signal ? { signal } : {}) });

function rowsOf(table: Tensor): Mark[] {
  const rows = table.toArray() as bigint[][];
  return rows.map(([lease, from, to]) => ({ lease: Number(lease), from: Number(from), to: Number(to) }));
}
