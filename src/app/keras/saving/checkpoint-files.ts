/** Checkpoints of TensorFlow, written and read by its own ops. */
import { readFile } from 'node:fs/promises';
import { messageOf, ShoalError } from '../../../base/errors/errors.js';
import { makeDirectory } from '../../../base/files/directories.js';
import { readIndexFile } from '../../../tensorflow/formats/tensor-bundle/index-file.js';
import { indexFile } from '../../../tensorflow/formats/tensor-bundle/naming.js';
import type { Operation, Output } from '../../../tensorflow/graph/operation.js';
import { placeholder } from '../../../tensorflow/ops/creation.js';
import * as raw from '../../../tensorflow/ops/generated/index.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import type { Variable } from '../../../tensorflow/variables/variable.js';
import type { TrainingRunner } from '../../../training/train/task/training-runner.js';

interface Ops {
  readonly prefix: Output<'string'>;
  readonly save: Operation;
  readonly values: readonly Output[];
}

export class CheckpointFiles {
  readonly #runner: TrainingRunner;
  /** By the names of the variables: a graph cannot lose ops. */
  readonly #ops = new Map<string, Ops>();

  constructor(runner: TrainingRunner) {
    this.#runner = runner;
  }

  /** Writes `prefix.index` and `prefix.data-00000-of-00001`. */
  async save(prefix: string, variables: readonly Variable[]): Promise<void> {
    await makeDirectory(directoryOf(prefix));
    const ops = this.#opsFor(variables);
    await this.#runner.run(ops.save, { feeds: [[ops.prefix, Tensor.of(prefix)]] });
  }

  async read(prefix: string, variables: readonly Variable[]): Promise<readonly Tensor[]> {
    if (variables.length === 0) return [];
    const ops = this.#opsFor(variables);
    return this.#runner.run(ops.values, { feeds: [[ops.prefix, Tensor.of(prefix)]] });
  }

  /** The names of the tensors in a checkpoint. */
  async names(prefix: string): Promise<ReadonlySet<string>> {
    const file = indexFile(prefix);
    try {
      return new Set(readIndexFile(await readFile(file), file).tensors.keys());
    } catch (cause) {
      if ((cause as NodeJS.ErrnoException).code !== 'ENOENT') throw cause;
      throw new ShoalError('SHOAL_NOT_FOUND', `There is no checkpoint ${prefix}: ${messageOf(cause)}`, {
        cause,
        hint: 'Give the path without its ending, as to saveWeights.',
      });
    }
  }

  #opsFor(variables: readonly Variable[]): Ops {
    const names = variables.map(({ name }) => name);
    const key = names.join('\n');
    const known = this.#ops.get(key);
    if (known) return known;
    const made = this.#runner.graph.asDefault((): Ops => {
      const prefix = placeholder({ dtype: 'string', shape: [] });
      const [all, slices] = [Tensor.of(names), Tensor.of(names.map(() => ''))];
      const values = variables.map((variable) => variable.toOutput());
      return {
        prefix,
        save: raw.saveV2(prefix, all, slices, values),
        values: raw.restoreV2(prefix, all, slices, { dtypes: variables.map(({ dtype }) => dtype) }),
      };
    });
    this.#ops.set(key, made);
    return made;
  }
}

const directoryOf = (prefix: string): string => prefix.slice(0, prefix.lastIndexOf('/') + 1) || '.';
