/**
 * Reads and writes variables in the process that holds them. In a server's process a local session finds every variable
 * by its resource name. Reading takes a reference, not a copy (except for sparsely updated tables, which TensorFlow
 * copies); writing transfers the tensor.
 */
import type { Graph } from '../../../tensorflow/graph/graph.js';
import type { Operation, Output } from '../../../tensorflow/graph/operation.js';
import * as raw from '../../../tensorflow/ops/generated/index.js';
import type { Runner, RunOptions } from '../../../tensorflow/session/runner.js';
import type { Tensor } from '../../../tensorflow/tensor/tensor.js';
import type { Variable } from '../../../tensorflow/variables/variable.js';
import type { SavedVariable } from '../format/saved-variable.js';

export interface AccessOptions {
  readonly signal?: AbortSignal;
  readonly timeoutMs?: number;
}

export interface SessionVariableAccess {
  /** The values of all; consistent if there are no concurrent writes. The caller disposes them. */
  read(variables: readonly SavedVariable[], options?: AccessOptions): Promise<Tensor[]>;
  assign(variable: SavedVariable, value: Tensor, options?: AccessOptions): Promise<void>;
  close(): Promise<void>;
}

interface Ops {
  readonly read: Output;
  readonly value: Output;
  readonly assign: Operation;
}

/** Access through ops that are created once per variable. */
abstract class OpAccess implements SessionVariableAccess {
  readonly #ops = new Map<string, Ops>();

  protected abstract session(): Runner;
  protected abstract make(variable: SavedVariable): Ops;

  #opsOf(variable: SavedVariable): Ops {
    const key = JSON.stringify([variable.container, variable.resource, variable.dtype, variable.shape]);
    let ops = this.#ops.get(key);
    if (!ops) {
      ops = this.make(variable);
      this.#ops.set(key, ops);
    }
    return ops;
  }

  async read(variables: readonly SavedVariable[], options: AccessOptions = {}): Promise<Tensor[]> {
    const reads = variables.map((variable) => this.#opsOf(variable).read);
    // An empty list cannot be run.
    return reads.length === 0 ? [] : ((await this.session().run(reads, defined(options))) as Tensor[]);
  }

  async assign(variable: SavedVariable, value: Tensor, options: AccessOptions = {}): Promise<void> {
    const { value: placeholder, assign } = this.#opsOf(variable);
    await this.session().run(assign, { ...defined(options), feeds: [[placeholder, value]] });
  }

  async close(): Promise<void> {}
}

/** A session of this process on the variables that it holds. */
export interface HeldVariables {
  readonly graph: Graph;
  readonly session: Runner;
  close(): Promise<void>;
}

/** The variables that this task of a cluster holds. */
export class ServerVariables extends OpAccess {
  readonly #open: () => HeldVariables;
  #held: HeldVariables | undefined;

  constructor(open: () => HeldVariables) {
    super();
    this.#open = open;
  }

  #hold(): HeldVariables {
    this.#held ??= this.#open();
    return this.#held;
  }

  protected session(): Runner {
    return this.#hold().session;
  }

  protected make({ resource, container, dtype, shape }: SavedVariable): Ops {
    return this.#hold().graph.asDefault(() => {
      const handle = raw.varHandleOp({ sharedName: resource, container, dtype, shape });
      const value = raw.placeholder({ dtype, shape });
      return {
        read: raw.readVariableOp(handle, { dtype }),
        value,
        assign: raw.assignVariableOp(handle, value),
      };
    });
  }

  override async close(): Promise<void> {
    const held = this.#held;
    this.#held = undefined;
    await held?.close();
  }
}

/** The variables of a graph through its session, for a process without servers. */
export class SessionVariables extends OpAccess {
  readonly #session: Runner;
  readonly #variables: ReadonlyMap<string, Variable>;

  constructor(session: Runner, variables: readonly Variable[]) {
    super();
    this.#session = session;
    this.#variables = new Map(variables.map((variable) => [variable.name, variable]));
  }

  protected session(): Runner {
    return this.#session;
  }

  protected make({ resource, dtype, shape }: SavedVariable): Ops {
    const variable = this.#variables.get(resource) as Variable;
    const { graph } = variable;
    return graph.asDefault(() =>
      graph.nameScope('save', () => {
        const value = graph.device(variable.device, () => raw.placeholder({ dtype, shape }));
        const assign = graph.device(variable.device, () => variable.assign(value));
        return { read: variable.toOutput(), value, assign };
      }),
    );
  }
}

function defined({ signal, timeoutMs }: AccessOptions): RunOptions {
  return { signal, timeoutMs };
}
