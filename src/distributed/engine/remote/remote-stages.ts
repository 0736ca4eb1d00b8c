/**
 * The stages of a plan on another task, over one connection. If the connection breaks, all runs on it fail immediately
 * with UNAVAILABLE and the name of the task.
 */
import type { Duplex } from 'node:stream';
import { VERSIONS } from '../../../base/bytes/versions.js';
import { firstLineOf, messageOf, ShoalError } from '../../../base/errors/errors.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import type { Stage } from '../partition/plan.js';
import type { StageEnded, StageRunner } from '../run-plan.js';
import { stageName, type TaskTrace } from '../trace/task-trace.js';
import { Connection, type WireMessage } from '../wire/connection.js';
import { BULK_SINCE } from '../wire/frame.js';
import { BulkCaller, type BulkDialer } from './bulk-opening.js';
import { decodeFailure, encodeRegister, encodeRun, KEEPS_SINCE, KIND } from './protocol.js';

const EMPTY = new Uint8Array(0);

export interface RemoteStagesOptions {
  readonly task: string;
  /** The task and its address, for errors. */
  readonly label: string;
  readonly head?: Uint8Array;
  /** The version of the stage protocol that both tasks speak. */
  readonly version?: number | undefined;
  /** Opens a bulk channel when a run has large tensors; default: none. */
  readonly bulk?: BulkDialer | undefined;
  /** Default: calls are not traced. */
  readonly trace?: TaskTrace | undefined;
}

interface Call {
  readonly stage: Stage;
  readonly done: StageEnded;
  /** If the call is traced. */
  readonly traced: { readonly run: number; readonly from: number; readonly sentBytes: number } | undefined;
}

export class RemoteStages implements StageRunner {
  readonly task: string;
  readonly #connection: Connection;
  /** The numbers of registered stages, by hash. */
  readonly #numbers = new Map<string, number>();
  readonly #calls = new Map<number, Call>();
  /** Whether the task keeps tensors between stages. */
  readonly #keeps: boolean;
  readonly #bulk: BulkCaller | undefined;
  readonly #trace: TaskTrace | undefined;
  #nextCall = 0;
  #failure: ShoalError | undefined;

  constructor(
    socket: Duplex,
    { task, label, head, version = VERSIONS.stages.newest, bulk, trace }: RemoteStagesOptions,
  ) {
    this.task = task;
    this.#trace = trace;
    this.#keeps = version >= KEEPS_SINCE;
    this.#connection = new Connection(
      socket,
      {
        label,
        version,
        onMessage: (message) => this.#receive(message),
        onClose: (error) => this.#lost(error),
        // If both sides stopped reading, neither would continue: the side that waits for replies always reads.
        limits: { maxQueuedBytes: Number.POSITIVE_INFINITY },
      },
      head,
    );
    const send = (head: Uint8Array) => this.#connection.send({ kind: KIND.bulk, id: 0, head, tensors: [] });
    if (bulk && version >= BULK_SINCE) this.#bulk = new BulkCaller(this.#connection, send, bulk);
    // Only runs keep the process alive.
    this.#connection.unref();
  }

  get closed(): boolean {
    return this.#failure !== undefined;
  }

  start(
    stage: Stage,
    inputs: readonly (Tensor | undefined)[],
    timeoutMs: number | undefined,
    done: StageEnded,
    run: number,
  ): (() => void) | undefined {
    if (this.#failure) {
      done(this.#failure, []);
      return undefined;
    }
    const number = this.#numbers.get(stage.hash) ?? this.#register(stage);
    const id = this.#nextCall;
    this.#nextCall = (id + 1) % 2 ** 32;
    const kept = this.#keepsIn(stage) ? { run, keeping: stage } : undefined;
    const head = encodeRun({ stage: number, timeoutMs, kept });
    const present = new Set(kept?.keeping.present.map(({ at }) => at));
    const tensors = inputs.filter((tensor, at): tensor is Tensor => !present.has(at));
    this.#bulk?.meet(tensors);
    const traced = this.#trace?.isOn
      ? { run, from: this.#trace.now(), sentBytes: bytesOf(tensors) }
      : undefined;
    this.#connection.send({ kind: KIND.run, id, head, tensors });
    if (this.#calls.size === 0) this.#connection.ref();
    this.#calls.set(id, { stage, done, traced });
    return () => this.#connection.send({ kind: KIND.cancel, id, head: EMPTY, tensors: [] });
  }

  forget(run: number): void {
    if (this.#keeps && !this.#failure)
      this.#connection.send({ kind: KIND.forget, id: run, head: EMPTY, tensors: [] });
  }

  #keepsIn({ present, keeps, withheld }: Stage): boolean {
    return this.#keeps && present.length + keeps.length + withheld.length > 0;
  }

  /** The outputs of a call by position; undefined if the reply does not have those that were asked for. */
  #outputsOf({ stage }: Call, tensors: readonly Tensor[]): readonly (Tensor | undefined)[] | undefined {
    const withheld = new Set(this.#keeps ? stage.withheld : []);
    if (tensors.length + withheld.size !== stage.outputs.length) return undefined;
    if (withheld.size === 0) return tensors;
    let next = 0;
    return stage.outputs.map((_, at) => (withheld.has(at) ? undefined : tensors[next++]));
  }

  /** The number is recorded only if the registration could be encoded: the peer knows no other ones. */
  #register(stage: Stage): number {
    const number = this.#numbers.size;
    const graph = Tensor.of(stage.spec.graph, { dtype: 'uint8' });
    this.#connection.send({ kind: KIND.register, id: number, head: encodeRegister(stage), tensors: [graph] });
    this.#numbers.set(stage.hash, number);
    return number;
  }

  close(): void {
    this.#connection.close();
  }

  #receive({ kind, id, head, tensors }: WireMessage): void {
    if (kind === KIND.bulk && this.#bulk && tensors.length === 0) {
      this.#receiveBulk(this.#bulk, head);
      return;
    }
    this.#bulk?.meet(tensors);
    const call = this.#calls.get(id);
    this.#calls.delete(id);
    if (this.#calls.size === 0) this.#connection.unref();
    if (kind === KIND.failure && call) {
      const failure = decodeFailure(head, this.task);
      this.#traceEnd(id, call, [], failure);
      call.done(failure, []);
      return;
    }
    const outputs = kind === KIND.result && call ? this.#outputsOf(call, tensors) : undefined;
    if (outputs) {
      if (call?.traced) this.#traceEnd(id, call, tensors);
      call?.done(undefined, outputs);
      return;
    }
    for (const tensor of tensors) tensor.dispose();
    const what = call
      ? `a reply of kind ${kind} with ${tensors.length} tensors`
      : `a reply to unknown run ${id}`;
    this.#connection.close(new ShoalError('SHOAL_CORRUPT', `${this.task} sent ${what}`, { task: this.task }));
    call?.done(this.#failure ?? new ShoalError('SHOAL_CORRUPT', messageOf(what)), []);
  }

  #traceEnd(
    id: number,
    { stage, traced }: Call,
    received: readonly Tensor[],
    error?: ShoalError | undefined,
  ): void {
    const trace = this.#trace;
    if (!traced || !trace) return;
    const { task } = this;
    const receivedBytes = bytesOf(received);
    trace.add({
      ...{ kind: 'call', task, call: id, stage: stageName(stage.spec), ...traced, receivedBytes },
      ...{ to: trace.now(), error: error?.code },
    });
  }

  #receiveBulk(bulk: BulkCaller, head: Uint8Array): void {
    try {
      bulk.receive(head);
    } catch (cause) {
      const what = `${this.task} sent an invalid message: ${messageOf(cause)}`;
      this.#connection.close(new ShoalError('SHOAL_CORRUPT', what, { task: this.task, cause }));
    }
  }

  #lost(cause: ShoalError): void {
    this.#bulk?.close();
    this.#failure = new ShoalError('SHOAL_TF_UNAVAILABLE', firstLineOf(cause), {
      task: this.task,
      cause,
      hint: 'A task is down or unreachable; it may restart on another host.',
    });
    const calls = [...this.#calls];
    this.#calls.clear();
    for (const [id, call] of calls) {
      this.#traceEnd(id, call, [], this.#failure);
      call.done(this.#failure, []);
    }
  }
}

const bytesOf = (tensors: readonly Tensor[]): number =>
  tensors.reduce((sum, { byteLength }) => sum + byteLength, 0);
