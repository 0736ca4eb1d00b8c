/**
 * What a step of a worker leaves on each ps that it updates, so that the chief can tell, when the worker is lost,
 * whether its last step was applied there: a mark when it begins to be applied, and one when it has been.
 *
 * The updates of a ps wait until everything that they need from the worker is there; then the ps checks whether the
 * step's lease is valid, marks, updates, and marks again, waiting for nobody. So a worker that dies leaves a ps
 * with the whole of a step or nothing of it, and one that was given up while it slept is rejected.
 *
 * Check and first mark are one critical section of a mutex on the ps, and so is the chief's write of the fence. When the
 * fence is closed every step that passed the check has its mark, and no other step will have one.
 */
import { isDeepStrictEqual } from 'node:util';
import { backoffMs } from '../../async/backoff.js';
import { sleep } from '../../async/deadline.js';
import { isShoalError } from '../../errors/errors.js';
import { type Gradient, IndexedSlices } from '../../gradients/index.js';
import { Graph } from '../../graph/graph.js';
import type { Operation, Output } from '../../graph/operation.js';
import { constant, placeholder } from '../../ops/creation.js';
import * as raw from '../../ops/generated/index.js';
import type { UpdateGuard } from '../../optimizers/optimizer.js';
import type { Session } from '../../session/session.js';
import { Tensor } from '../../tensor/tensor.js';
import type { Variable } from '../../variables/variable.js';
import type { Range } from '../files/ranges.js';

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
    const { section, unlock } = lock(graph, this.#worker, [came]);
    const isValid = graph.controlDependencies([section], () =>
      raw.greater(place[0], raw.readVariableOp(handleOf(this.#worker, 'fence'), { dtype: 'int64' })),
    );
    // A rejected step writes its mark to the row that nobody reads: the lock is released in the same way.
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

/** The row of the marks of rejected steps; that of a lane is the lane's number plus one. */
const REJECTED = 0n;
const rowOf = ([, , , lane]: Place): Scalar => raw.addV2(lane, constant(Tensor.of(1n))) as Scalar;

type Kind = 'fence' | 'begun' | 'ended';

/** A variable of the ps that is in no collection: neither saved nor given first values by whoever finds none. */
const handleOf = (worker: string, kind: Kind): Output<'resource'> =>
  raw.varHandleOp({
    dtype: 'int64',
    shape: null,
    sharedName: sharedName(worker, kind),
  }) as Output<'resource'>;

const sharedName = (worker: string, kind: Kind | 'mutex'): string =>
  `input_marks/${worker.replace(/^\/job:|\/task/g, '')}/${kind}`;

/**
 * A critical section of a worker on the device of the scope: what depends on `section` and is given to `unlock` is done while
 * nobody else is in one. A run that is aborted inside leaves it too.
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

/** What became of the last steps of a worker. */
export interface LastSteps {
  /** Steps that all ps have applied. */
  readonly applied: readonly Mark[];
  /** Steps that some have applied and others have not, or not wholly, as far as can be told. */
  readonly partial: readonly Mark[];
}

/** A session over the ps. */
export type MarkSession = Pick<Session, 'run' | 'close'>;

export interface MarkKeeperOptions {
  readonly log?: ((line: string) => void) | undefined;
  /**
   * How long a step that a ps has begun to apply may take there; default: 60 s. One that has not ended by then failed on
   * the way: it counts as applied in part.
   */
  readonly applyTimeoutMs?: number | undefined;
}

const POLL = { baseMs: 5, maxMs: 250 };

/** The chief's view of the marks: it admits workers, rejects them, and reads what they left. */
export class MarkKeeper implements AsyncDisposable {
  readonly #graph = new Graph();
  readonly #session: MarkSession;
  readonly #devices: readonly string[];
  readonly #lanes: number;
  readonly #options: MarkKeeperOptions;
  readonly #ops = new Map<string, Ops>();

  /** @param lanes how many steps a worker has under way at once. */
  constructor(
    open: (graph: Graph) => MarkSession,
    devices: readonly string[],
    lanes: number,
    options: MarkKeeperOptions = {},
  ) {
    this.#devices = devices;
    this.#lanes = lanes;
    this.#options = options;
    this.#session = open(this.#graph);
  }

  #opsOf(worker: string): Ops {
    const known = this.#ops.get(worker);
    if (known) return known;
    const graph = this.#graph;
    const made = graph.asDefault(() => {
      const fenceValue = placeholder({ dtype: 'int64', shape: [] });
      const each = <T>(build: () => T): T[] => this.#devices.map((device) => graph.device(device, build));
      const setFence = (value: Output<'int64'>) => raw.assignVariableOp(handleOf(worker, 'fence'), value);
      const clear = (kind: Kind) =>
        raw.assignVariableOp(
          handleOf(worker, kind),
          constant(Tensor.zeros([Number(REJECTED) + 1 + this.#lanes, 3], 'int64')),
        );
      const locked = (build: () => Operation[]): Operation => {
        const { section, unlock } = lock(graph, worker);
        return unlock(graph.controlDependencies([section], build));
      };
      const read = (kind: Kind) => raw.readVariableOp(handleOf(worker, kind), { dtype: 'int64' });
      return {
        fenceValue,
        open: each(() => locked(() => [clear('begun'), clear('ended'), setFence(fenceValue)])),
        close: each(() => locked(() => [setFence(constant(Tensor.of(CLOSED)))])),
        isOpened: each(() => raw.varIsInitializedOp(handleOf(worker, 'ended'))),
        begun: each(() => read('begun') as Output<'int64'>),
        ended: each(() => read('ended') as Output<'int64'>),
      };
    });
    this.#ops.set(worker, made);
    return made;
  }

  /** Admits steps whose leases have higher ids. Nothing of the worker may be under way. */
  async open(worker: string, above: number, signal?: AbortSignal): Promise<void> {
    const { open, fenceValue } = this.#opsOf(worker);
    const feeds = new Map([[fenceValue, Tensor.of(BigInt(above))]]);
    await this.#session.run(open, { ...within(signal), feeds });
  }

  /** Rejects steps of these workers; resolves when no step that was admitted before is being applied any more. */
  async close(workers: readonly string[], signal?: AbortSignal): Promise<void> {
    await Promise.all(
      workers.map(async (worker) => {
        await this.#session.run(this.#opsOf(worker).close, within(signal));
        await this.#applied(worker, signal);
      }),
    );
  }

  /** Resolves when every ps has applied what it has begun. The fence is closed: nothing else begins. */
  async #applied(worker: string, signal?: AbortSignal): Promise<void> {
    const { isOpened, begun, ended } = this.#opsOf(worker);
    const { log, applyTimeoutMs = 60_000 } = this.#options;
    // A ps that was started anew since the worker was admitted has applied nothing of it.
    const opened = await this.#session.run(isOpened, within(signal));
    const known = [...opened.keys()].filter((i) => opened[i]?.toArray());
    const deadline = performance.now() + applyTimeoutMs;
    for (let attempt = 0; known.length > 0; attempt++) {
      const fetches = known.flatMap((i) => [begun[i], ended[i]] as [Output<'int64'>, Output<'int64'>]);
      const tables = (await this.#session.run(fetches, within(signal))).map(lanesOf);
      const waiting = known.filter((_, k) => !isDeepStrictEqual(tables[2 * k], tables[2 * k + 1]));
      if (waiting.length === 0) return;
      if (performance.now() > deadline) {
        const where = waiting.map((i) => this.#devices[i]).join(', ');
        log?.(`a step of ${worker} has begun on ${where} and has not ended within ${applyTimeoutMs} ms`);
        return;
      }
      await sleep(backoffMs(attempt, POLL), signal);
    }
  }

  /** Looks at the steps of leases that a worker holds. It must have been closed. */
  async lastSteps(worker: string, held: readonly number[], signal?: AbortSignal): Promise<LastSteps> {
    const { begun, ended } = this.#opsOf(worker);
    const tables = (await this.#session.run([...begun, ...ended], within(signal))).map(lanesOf);
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

function lanesOf(table: Tensor): Mark[] {
  const [, ...rows] = table.toArray() as bigint[][];
  return rows.map(([lease, from, to]) => ({ lease: Number(lease), from: Number(from), to: Number(to) }));
}
