/**
 * Two ps, a chief and a worker in one process, each with its own disk: the complete checkpoint service without the
 * network. The ps hold real variables in real sessions.
 */

import * as tf from '../../src/app/tf/index.js';
import { Checkpoints, type CheckpointsOptions } from '../../src/distributed/checkpoint/checkpoints.js';
import type { Manifest } from '../../src/distributed/checkpoint/format/manifest.js';
import type { SavedVariable } from '../../src/distributed/checkpoint/format/saved-variable.js';
import { savedVariable } from '../../src/distributed/checkpoint/format/saved-variable.js';
import type { PauseControl, SaveRequest } from '../../src/distributed/checkpoint/protocol/save.js';
import type { ShardOwner } from '../../src/distributed/checkpoint/shard/shard-owner.js';
import { ShardService } from '../../src/distributed/checkpoint/shard/shard-service.js';
import { SessionVariables } from '../../src/distributed/checkpoint/shard/variable-access.js';
import { Disks } from '../../src/distributed/checkpoint/testing/disks.js';
import { Graph } from '../../src/tensorflow/graph/graph.js';
import type { Operation, Output } from '../../src/tensorflow/graph/operation.js';
import { Session } from '../../src/tensorflow/session/session.js';
import { Tensor } from '../../src/tensorflow/tensor/tensor.js';
import { sameBits } from './same-bits.js';

export const PLACES = ['ps/0', 'ps/1', 'chief/0', 'worker/0'];
const OWNERS = ['ps/0', 'ps/1'];
const ROWS = 20;

/** All values of a step: every element encodes its step. */
export function valuesOf(owner: string, step: number): readonly Tensor[] {
  const at = OWNERS.indexOf(owner);
  return [
    Tensor.of(Float32Array.from({ length: 300 }, (_, i) => step + i / 1024 + at) as never, {
      dtype: 'float32',
      shape: [300],
    }),
    Tensor.of(Float32Array.from({ length: ROWS * 5 }, (_, i) => step * 1000 + (at * ROWS * 5 + i)) as never, {
      dtype: 'float32',
      shape: [ROWS, 5],
    }),
    Tensor.of(BigInt(step), { dtype: 'int64' }),
    Tensor.of([`step ${step}`, '', `owner ${owner} of step ${step}`]),
  ];
}

class Owner {
  readonly service: ShardService;
  readonly saved: readonly SavedVariable[];
  readonly #graph = new Graph();
  readonly #session: Session;
  readonly #reads: readonly Output[];
  readonly #assigns: readonly { readonly value: Output; readonly assign: Operation }[];

  constructor(
    readonly name: string,
    disks: Disks,
    replicas: number,
    log: (line: string) => void,
  ) {
    const at = OWNERS.indexOf(name);
    const variables = this.#graph.asDefault(() =>
      valuesOf(name, 0).map((value, i) => tf.newVariable(tf.constant(value), { name: `v${at}${i}` })),
    );
    this.#reads = variables.map((variable) => variable.toOutput());
    this.#assigns = this.#graph.asDefault(() =>
      variables.map((variable) => {
        const value = tf.placeholder({ dtype: variable.dtype, shape: variable.fullShape });
        return { value, assign: variable.assign(value) };
      }),
    );
    this.saved = variables.map((variable, i) =>
      i === 1
        ? {
            ...savedVariable(variable, 'table'),
            part: { fullShape: [OWNERS.length * ROWS, 5], offset: [at * ROWS, 0] },
          }
        : savedVariable(variable),
    );
    this.#session = Session.open({ graph: this.#graph });
    const access = new SessionVariables(this.#session, variables);
    this.service = new ShardService({ access, openStore: () => disks.store(name, replicas), log });
  }

  async set(step: number): Promise<void> {
    const values = valuesOf(this.name, step);
    await this.#session.run(
      this.#assigns.map(({ assign }) => assign),
      { feeds: this.#assigns.map(({ value }, i) => [value, values[i]!] as const) },
    );
  }

  async values(): Promise<readonly Tensor[]> {
    return this.#session.run([...this.#reads]) as Promise<Tensor[]>;
  }

  async close(): Promise<void> {
    await this.#session.close();
  }
}

export interface ChiefOptions extends Partial<CheckpointsOptions> {
  readonly incarnation?: number;
}

export class TestCluster implements AsyncDisposable {
  readonly disks = new Disks(PLACES);
  readonly log: string[] = [];
  readonly owners: readonly Owner[];
  readonly #replicas: number;

  constructor(replicas = 1) {
    this.#replicas = replicas;
    const log = (line: string) => void this.log.push(line);
    this.owners = OWNERS.map((name) => new Owner(name, this.disks, replicas, log));
  }

  chief({ incarnation = 1, ...options }: ChiefOptions = {}): Checkpoints {
    return new Checkpoints({
      store: this.disks.store('chief/0', this.#replicas),
      namespace: 'job',
      owner: (name) => this.owner(name),
      chief: { task: '/job:chief/task:0', incarnation },
      now: Date.now,
      log: (line) => this.log.push(line),
      retention: { keep: 5 },
      attempts: 1,
      ...options,
    });
  }

  owner(name: string): ShardOwner {
    return this.owners.find((owner) => owner.name === name)!.service;
  }

  /** An owner of which some methods are replaced. */
  ownerWith(name: string, changes: (owner: ShardOwner) => Partial<ShardOwner>): ShardOwner {
    const owner = this.owner(name);
    return {
      snapshot: (...given) => owner.snapshot(...given),
      write: (...given) => owner.write(...given),
      drop: (...given) => owner.drop(...given),
      restore: (...given) => owner.restore(...given),
      ...changes(owner),
    };
  }

  get variables(): ReadonlyMap<string, readonly SavedVariable[]> {
    return new Map(this.owners.map(({ name, saved }) => [name, saved]));
  }

  async set(step: number): Promise<void> {
    for (const owner of this.owners) await owner.set(step);
  }

  request(step: number, more: Partial<SaveRequest> = {}): SaveRequest {
    return {
      variables: this.variables,
      step: async () => ({ step }),
      basename: 'model.ckpt',
      consistency: 'relaxed',
      meta: () => Buffer.from(`the graph at step ${step}`),
      ...more,
    };
  }

  /** Sets all variables to the values of a step and saves them. */
  async save(checkpoints: Checkpoints, step: number, more: Partial<SaveRequest> = {}): Promise<Manifest> {
    await this.set(step);
    return (await checkpoints.save(this.request(step, more)))!.manifest;
  }

  /** The step that every element of every variable belongs to, or a description of a mixture of steps. */
  async step(): Promise<number | string> {
    const found: Tensor[] = [];
    for (const owner of this.owners) found.push(...(await owner.values()));
    const step = found[2]!.number();
    const expected = OWNERS.flatMap((name) => valuesOf(name, step));
    const same = expected.every((value, i) => sameBits(value, found[i]!));
    return same ? step : `a mixture: ${found.map((value) => String(value.data[0]))}`;
  }

  /** The names of all blobs on all disks. */
  async blobs(): Promise<readonly string[]> {
    const names: string[] = [];
    for await (const { name } of this.disks.store('chief/0').list()) names.push(name);
    return names.sort();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const owner of this.owners) await owner.close();
    this.disks[Symbol.dispose]();
  }
}

/** Training that changes all values in every step, and pauses while any chief requests it. */
export class Training {
  #pauses = 0;
  step = 0;
  #tick: Promise<void> = Promise.resolve();
  #isOver = false;
  readonly #ended: Promise<void>;

  constructor(cluster: TestCluster) {
    this.#ended = (async () => {
      while (!this.#isOver) {
        if (this.#pauses === 0) {
          this.step += 1;
          this.#tick = cluster.set(this.step);
          await this.#tick;
        }
        await new Promise((resolve) => setImmediate(resolve));
      }
    })();
  }

  /** The pause control of one chief. */
  pauseControl(): PauseControl {
    let isPaused = false;
    return {
      workers: () => ['worker/0'],
      pause: async () => {
        isPaused = true;
        this.#pauses += 1;
        await this.#tick;
      },
      resume: async () => {
        if (isPaused) this.#pauses -= 1;
        isPaused = false;
      },
    };
  }

  async end(): Promise<void> {
    this.#isOver = true;
    await this.#ended;
  }
}
