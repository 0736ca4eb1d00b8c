/**
 * Marks that a worker's step writes on each ps that it updates: one before and one after the update. If the worker is
 * lost, they tell the chief whether its last step was applied there.
 *
 * The updates of a ps wait until all their inputs from the worker have arrived; then the ps checks whether the step's
 * lease is valid, marks, updates, and marks again, without waiting for other tasks. So a worker that dies leaves all of
 * a step on a ps or nothing, and a frozen worker that was declared lost is rejected.
 *
 * Check and first mark are one critical section of a mutex on the ps, and so is the chief's write of the fence. When
 * the fence is closed every step that passed the check has its mark, and no other step will have one.
 */
import { isDeepStrictEqual } from 'node:util';
import { backoffMs } from '../../../base/async/backoff.js';
import { sleep } from '../../../base/async/deadline.js';
import { isShoalError } from '../../../base/errors/errors.js';
import { type Gradient, IndexedSlices } from '../../../tensorflow/gradients/index.js';
import { Graph } from '../../../tensorflow/graph/graph.js';
import type { Operation, Output } from '../../../tensorflow/graph/operation.js';
import { constant, placeholder } from '../../../tensorflow/ops/creation.js';
import * as raw from '../../../tensorflow/ops/generated/index.js';
import type { UpdateGuard } from '../../../tensorflow/optimizers/optimizer.js';
import type { Session } from '../../../tensorflow/session/session.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import type { Variable } from '../../../tensorflow/variables/variable.js';
import type { FileRange } from '../files/ranges.js';
import type { Fence } from './ledger.js';

/** The error of a step whose lease is void. */
const VOID = 'the lease of this step is void';
/** Above any lease: no step is admitted. */
const CLOSED = 2n ** 62n;

/** Whether a ps rejected the step: its worker must restart its input. */
export const isVoidStep = (error: unknown): boolean =>
  isShoalError(error, 'SHOAL_TF_INVALID_ARGUMENT') && error.message.includes(VOID);

/** The last step of one in-flight slot: its lease and records. */
export interface StepMark extends FileRange {
  readonly lease: number;
}

type Pair = readonly [Gradient, Variable];
type Scalar = Output<'int64'>;
type Place = readonly [lease: Scalar, from: Scalar, to: Scalar, term: Scalar, slot: Scalar];

const PS = /^\/job:ps(?:\/replica:\d+)?\/task:(\d+)/;

/** The marks that the steps of this worker's graph make, on the device of each ps that they update. */
export class StepMarks implements UpdateGuard {
  readonly #worker: string;
  readonly #position: Output<'int64'>;
  readonly #slot: Output<'int64'>;
  /** On each device, as received there. */
  readonly #places = new Map<string, Place>();
  #devices: readonly (string | undefined)[] = [];

  /**
   * @param position of the batch: lease, from, to, term.
   * @param slot the in-flight slot of the step.
   */
  constructor(worker: string, position: Output<'int64'>, slot: Output<'int64'>) {
    this.#worker = worker;
    this.#position = position;
    this.#slot = slot;
  }

  /** The devices with marks. */
  get devices(): readonly string[] {
    return [...this.#places.keys()];
  }

  admit(pairs: readonly Pair[]): readonly Pair[] {
    const { graph } = this.#position;
    const mark = raw.concatV2([this.#position, raw.expandDims(this.#slot, int(0))], int(0), {
      name: 'step_mark',
    }) as Output<'int64'>;
    this.#devices = pairs.map(([, { device }]) => PS.exec(device)?.[0]);
    const admitted = [...pairs];
    for (const device of new Set(this.#devices)) {
      if (device === undefined) continue;
      const members = [...pairs.keys()].filter((i) => this.#devices[i] === device);
      const own = members.map((i) => pairs[i] as Pair);
      onDevice(graph, device, () => {
        const { gradients, place } = this.#gate(graph, own, mark);
        for (const [k, i] of members.entries()) admitted[i] = [gradients[k] as Gradient, (own[k] as Pair)[1]];
        this.#places.set(device, place);
      });
    }
    return admitted;
  }

  /** Passes the gradients of one ps on when all have arrived and the lease is valid. */
  #gate(graph: Graph, pairs: readonly Pair[], mark: Output<'int64'>) {
    const arrived = pairs.map(([gradient]) => eachTensor(gradient, (tensor) => raw.identity(tensor)));
    const came = graph.controlDependencies(arrived.flatMap(tensorsOf), () => raw.identity(mark));
    const place = raw.unpack(came, { num: 5 }) as unknown as Place;
    const { section, unlock } = lock(graph, this.#worker, [came]);
    const fence = graph.controlDependencies([section], () =>
      raw.readVariableOp(handleOf(this.#worker, 'fence'), { dtype: 'int64' }),
    );
    const [term, above] = raw.unpack(fence, { num: 2 }) as unknown as readonly [Scalar, Scalar];
    const isValid = raw.logicalAnd(raw.equal(place[3], term), raw.greater(place[0], above));
    // A rejected step writes its mark to an unused row, so that the lock is released in the same way.
    const row = raw.selectV2(isValid, rowOf(place), constant(Tensor.of(REJECTED))) as Scalar;
    const unlocked = unlock([this.#mark('begun', place, row)]);
    const checked = graph.controlDependencies([unlocked], () => raw.assert(isValid, [constant(VOID)]));
    const gradients = graph.controlDependencies([checked], () =>
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
          () => this.#mark('ended', place, rowOf(place)),
        ),
      ),
    );
  }

  #mark(kind: 'begun' | 'ended', [lease, from, to]: Place, row: Scalar): Operation {
    return raw.resourceScatterUpdate(handleOf(this.#worker, kind), row, raw.pack([lease, from, to]));
  }
}

/** The row of rejected steps; that of a slot is its number plus one. */
const REJECTED = 0n;
const rowOf = ([, , , , slot]: Place): Scalar => raw.addV2(slot, constant(Tensor.of(1n))) as Scalar;

type Kind = 'fence' | 'begun' | 'ended';

/** A variable of the ps outside of all collections: it is neither saved nor initialized by sessions. */
const handleOf = (worker: string, kind: Kind): Output<'resource'> =>
  raw.varHandleOp({
    dtype: 'int64',
    shape: null,
    sharedName: sharedName(worker, kind),
  }) as Output<'resource'>;

const sharedName = (worker: string, kind: Kind | 'mutex'): string =>
  `input_marks/${worker.replace(/^\/job:|\/task/g, '')}/${kind}`;

/**
 * A critical section of a worker on the device of the scope, for ops that depend on `section` and are given to
 * `unlock`. An aborted run leaves it too.
 */
function lock(graph: Graph, worker: string, after: readonly Output[] = []) {
  const mutex = raw.mutexV2({ sharedName: sharedName(worker, 'mutex') });
  const section = graph.controlDependencies([...after], () => raw.mutexLock(mutex));
  const unlock = (inside: readonly Operation[]): Operation =>
    graph.controlDependencies([...inside], () => raw.consumeMutexLock(section));
  return { section, unlock };
}

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
  readonly fenceValue: Output<'int64'>;
  readonly open: readonly Operation[];
  readonly close: readonly Operation[];
  readonly isOpened: readonly Output<'bool'>[];
  readonly begun: readonly Output<'int64'>[];
  readonly ended: readonly Output<'int64'>[];
}

/** The outcome of the last steps of a worker. */
export interface StepOutcome {
  /** Steps that all ps have applied. */
  readonly applied: readonly StepMark[];
  /** Steps that may be only partially applied. */
  readonly partial: readonly StepMark[];
}

/** A session over the ps. */
export type MarkSession = Pick<Session, 'run' | 'close'>;

export interface MarkKeeperOptions {
  readonly log?: (line: string) => void;
  /**
   * How long a ps may take to apply a step; default: 60 s. A step that takes longer counts as partially applied.
   */
  readonly applyTimeoutMs?: number;
}

const POLL = { baseMs: 5, maxMs: 250 };

/** The chief's view of the marks: it admits workers, rejects them, and reads what they left. */
export class MarkKeeper implements AsyncDisposable {
  readonly #graph = new Graph();
  readonly #session: MarkSession;
  readonly #devices: readonly string[];
  readonly #slots: number;
  readonly #options: MarkKeeperOptions;
  readonly #ops = new Map<string, Ops>();

  /** @param slots how many steps a worker has in flight. */
  constructor(
    open: (graph: Graph) => MarkSession,
    devices: readonly string[],
    slots: number,
    options: MarkKeeperOptions = {},
  ) {
    this.#devices = devices;
    this.#slots = slots;
    this.#options = options;
    this.#session = open(this.#graph);
  }

  #opsOf(worker: string): Ops {
    const known = this.#ops.get(worker);
    if (known) return known;
    const graph = this.#graph;
    const made = graph.asDefault(() => {
      const fenceValue = placeholder({ dtype: 'int64', shape: [2] });
      const each = <T>(build: () => T): T[] => this.#devices.map((device) => graph.device(device, build));
      const setFence = (value: Output<'int64'>) => raw.assignVariableOp(handleOf(worker, 'fence'), value);
      const clear = (kind: Kind) =>
        raw.assignVariableOp(
          handleOf(worker, kind),
          constant(Tensor.zeros([Number(REJECTED) + 1 + this.#slots, 3], 'int64')),
        );
      const locked = (build: () => Operation[]): Operation => {
        const { section, unlock } = lock(graph, worker);
        return unlock(graph.controlDependencies([section], build));
      };
      const read = (kind: Kind) => raw.readVariableOp(handleOf(worker, kind), { dtype: 'int64' });
      return {
        fenceValue,
        open: each(() => locked(() => [clear('begun'), clear('ended'), setFence(fenceValue)])),
        close: each(() => locked(() => [setFence(constant(Tensor.of(BigInt64Array.of(0n, CLOSED))))])),
        isOpened: each(() => raw.varIsInitializedOp(handleOf(worker, 'ended'))),
        begun: each(() => read('begun') as Output<'int64'>),
        ended: each(() => read('ended') as Output<'int64'>),
      };
    });
    this.#ops.set(worker, made);
    return made;
  }

  /** Admits steps whose leases are behind the fence. The worker must have no step in flight. */
  async open(worker: string, { term, lease }: Fence, signal?: AbortSignal): Promise<void> {
    const { open, fenceValue } = this.#opsOf(worker);
    const feeds = new Map([[fenceValue, Tensor.of(BigInt64Array.of(BigInt(term), BigInt(lease)))]]);
    await this.#session.run(open, { ...within(signal), feeds });
  }

  /** Rejects steps of these workers; resolves when all previously admitted steps have been applied. */
  async close(workers: readonly string[], signal?: AbortSignal): Promise<void> {
    await Promise.all(
      workers.map(async (worker) => {
        await this.#session.run(this.#opsOf(worker).close, within(signal));
        await this.#applied(worker, signal);
      }),
    );
  }

  /** Resolves when every ps has applied the steps it began. The fence is closed: no other step begins. */
  async #applied(worker: string, signal?: AbortSignal): Promise<void> {
    const { isOpened, begun, ended } = this.#opsOf(worker);
    const { log, applyTimeoutMs = 60_000 } = this.#options;
    // A ps that restarted after the worker was admitted has applied nothing of it.
    const opened = await this.#session.run(isOpened, within(signal));
    const known = [...opened.keys()].filter((i) => opened[i]?.toArray());
    const deadline = performance.now() + applyTimeoutMs;
    for (let attempt = 0; known.length > 0; attempt++) {
      const fetches = known.flatMap((i) => [begun[i], ended[i]] as [Output<'int64'>, Output<'int64'>]);
      const tables = (await this.#session.run(fetches, within(signal))).map(slotMarks);
      const waiting = known.filter((_, k) => !isDeepStrictEqual(tables[2 * k], tables[2 * k + 1]));
      if (waiting.length === 0) return;
      if (performance.now() > deadline) {
        const where = waiting.map((i) => this.#devices[i]).join(', ');
        log?.(`a step of ${worker} was not applied on ${where} within ${applyTimeoutMs} ms`);
        return;
      }
      await sleep(backoffMs(attempt, POLL), signal);
    }
  }

  /** The outcome of steps of leases that a worker holds. The worker must have been closed. */
  async lastSteps(worker: string, held: readonly number[], signal?: AbortSignal): Promise<StepOutcome> {
    const { begun, ended } = this.#opsOf(worker);
    const tables = (await this.#session.run([...begun, ...ended], within(signal))).map(slotMarks);
    const applied: StepMark[] = [];
    const partial: StepMark[] = [];
    for (let slot = 0; slot < this.#slots; slot++) {
      const rows = tables.map((table) => table[slot] as StepMark);
      const [first] = rows as [StepMark];
      const isSame = rows.every((row) => row.lease === first.lease && row.from === first.from);
      const own = rows.filter(({ lease }) => held.includes(lease));
      if (own.length === 0) continue;
      if (isSame) applied.push(first);
      // Of two positions the later one is the partially applied step.
      else partial.push(own.reduce((a, b) => ((a.lease - b.lease || a.from - b.from) < 0 ? b : a)));
    }
    return { applied, partial };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#session.close().catch(() => {
      // Ignored: a lost ps may prevent the close.
    });
  }
}

const within = (signal: AbortSignal | undefined) => ({ timeoutMs: 30_000, signal });

function slotMarks(table: Tensor): StepMark[] {
  const [, ...rows] = table.toArray() as bigint[][];
  return rows.map(([lease, from, to]) => ({ lease: Number(lease), from: Number(from), to: Number(to) }));
}
