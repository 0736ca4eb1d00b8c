/** Runs the stages of another task, over its connection. The runs end with the connection. */
import type { Duplex } from 'node:stream';
import { isShoalError, messageOf, ShoalError } from '../../../base/errors/errors.js';
import type { Tensor } from '../../../tensorflow/tensor/tensor.js';
import type { HostedStage } from '../host/hosted-stage.js';
import type { StageHost } from '../host/stage-host.js';
import { Connection, type WireMessage } from '../wire/connection.js';
import { BulkAnswerer, type BulkListener } from './bulk-opening.js';
import { type AfterCall, type KeptCall, KeptTensors, MOST_RUNS } from './kept-tensors.js';
import { decodeRegister, decodeRun, encodeFailure, KIND, type RunCall } from './protocol.js';

const EMPTY = new Uint8Array(0);

export interface StageServiceOptions {
  readonly host: StageHost;
  /** The peer, for errors. */
  readonly label: string;
  /** The task of the peer, for traces; default: the label. */
  readonly caller?: string;
  readonly head?: Uint8Array;
  /** The version of the stage protocol that both tasks speak. */
  readonly version?: number | undefined;
  /** Expects the connections of bulk channels; default: callers get none. */
  readonly bulk?: BulkListener | undefined;
  /** Called when the connection has ended, with the reason. */
  readonly onClose?: (error: ShoalError) => void;
}

export class StageService {
  readonly #host: StageHost;
  readonly #caller: string;
  readonly #connection: Connection;
  readonly #bulk: BulkAnswerer;
  readonly #stages = new Map<number, HostedStage | ShoalError>();
  /** The runs that have not ended, with their cancel functions. */
  readonly #runs = new Map<number, (() => void) | undefined>();
  /** @internal */
  readonly kept = new KeptTensors();
  /** Resolves when the connection is closed and no run of it is running any more. */
  readonly ended: Promise<void>;
  #end = () => {};

  constructor(
    socket: Duplex,
    { host, label, caller = label, head, version, bulk, onClose }: StageServiceOptions,
  ) {
    this.#host = host;
    this.#caller = caller;
    this.ended = new Promise((resolve) => {
      this.#end = resolve;
    });
    this.#connection = new Connection(
      socket,
      {
        label,
        version,
        onMessage: (message) => this.#receive(message),
        onClose: (error) => {
          for (const cancel of [...this.#runs.values()]) cancel?.();
          this.#bulk.close();
          this.#endIfIdle();
          onClose?.(error);
        },
      },
      head,
    );
    const send = (head: Uint8Array) => this.#connection.send({ kind: KIND.bulk, id: 0, head, tensors: [] });
    this.#bulk = new BulkAnswerer(this.#connection, send, bulk);
  }

  close(error?: ShoalError): void {
    this.#connection.close(error);
  }

  #receive({ kind, id, head, tensors }: WireMessage): void {
    try {
      if (kind === KIND.run) this.#run(id, head, tensors);
      else if (kind === KIND.register) this.#register(id, head, tensors);
      else if (kind === KIND.cancel) this.#runs.get(id)?.();
      else if (kind === KIND.forget) this.kept.forget(id);
      else if (kind === KIND.bulk && tensors.length === 0) this.#bulk.receive(head);
      else throw new Error(`unknown kind of message ${kind}`);
    } catch (cause) {
      for (const tensor of tensors) tensor.dispose();
      this.#connection.close(
        new ShoalError('SHOAL_CORRUPT', `invalid message: ${messageOf(cause)}`, { cause }),
      );
    }
  }

  #register(id: number, head: Uint8Array, [graph]: readonly Tensor[]): void {
    const { hash, ...names } = decodeRegister(head);
    if (graph?.dtype !== 'uint8') throw new Error('a stage without a graph');
    if (this.#stages.has(id)) throw new Error(`stage ${id} is already registered`);
    try {
      this.#stages.set(id, this.#host.register(hash, { graph: graph.data as Uint8Array, ...names }));
    } catch (error) {
      if (!isShoalError(error) || error.code === 'SHOAL_CORRUPT') throw error;
      // The runs of the stage report it.
      this.#stages.set(id, error);
    } finally {
      graph.dispose();
    }
  }

  #run(id: number, head: Uint8Array, tensors: readonly Tensor[]): void {
    const { stage: number, timeoutMs, kept } = decodeRun(head);
    const stage = this.#stages.get(number);
    if (stage === undefined) throw new Error(`stage ${number} is not registered`);
    if (this.#runs.has(id)) throw new Error(`run ${id} is already running`);
    const call = this.#begin(id, kept, tensors);
    if (call === undefined) return;
    const done = (error: ShoalError | undefined, outputs: readonly Tensor[]) => {
      this.#runs.delete(id);
      this.#reply(id, error, outputs, call.end(error ? undefined : outputs));
      this.#endIfIdle();
    };
    if (stage instanceof ShoalError) {
      done(stage, []);
      return;
    }
    if (this.#runs.size >= MOST_RUNS) {
      done(
        new ShoalError(
          'SHOAL_TF_RESOURCE_EXHAUSTED',
          `${this.#host.task} runs ${MOST_RUNS} stages of this task`,
        ),
        [],
      );
      return;
    }
    this.#runs.set(id, undefined);
    const cancel = stage.start(call.inputs, timeoutMs, done, this.#caller, id);
    if (cancel && this.#runs.has(id)) this.#runs.set(id, cancel);
  }

  /** A call that needs a tensor which is not here, or keeps too much, fails alone; the other runs of the peer continue. */
  #begin(id: number, kept: RunCall['kept'], tensors: readonly Tensor[]): KeptCall | undefined {
    try {
      return this.kept.call(kept, tensors);
    } catch (error) {
      if (!isShoalError(error)) throw error;
      for (const tensor of tensors) tensor.dispose();
      this.#connection.send({ kind: KIND.failure, id, head: encodeFailure(error), tensors: [] });
      return undefined;
    }
  }

  /** Nothing uses what is kept when the connection is closed and the last run has ended. */
  #endIfIdle(): void {
    if (this.#runs.size > 0 || !this.#connection.closed) return;
    this.kept.clear();
    this.#end();
  }

  /** Sends the outputs but for those that are withheld, and frees them but for those that are kept. */
  #reply(
    id: number,
    error: ShoalError | undefined,
    outputs: readonly Tensor[],
    { isSent, isKept }: AfterCall,
  ): void {
    try {
      if (!error) {
        const tensors = outputs.filter((_, at) => isSent(at));
        this.#connection.send({ kind: KIND.result, id, head: EMPTY, tensors });
        return;
      }
    } catch (cause) {
      error = isShoalError(cause) ? cause : new ShoalError('SHOAL_INTERNAL', messageOf(cause), { cause });
    } finally {
      for (const [at, output] of outputs.entries()) if (!isKept(at)) output.dispose();
    }
    this.#connection.send({ kind: KIND.failure, id, head: encodeFailure(error), tensors: [] });
  }
}
