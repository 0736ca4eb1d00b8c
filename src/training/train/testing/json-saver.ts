/** A saver for tests that saves the global variables of a small graph as JSON files in one directory. */
import { mkdir, readdir, readFile, rename, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Graph } from '../../../tensorflow/graph/graph.js';
import type { Operation, Output } from '../../../tensorflow/graph/operation.js';
import { placeholder } from '../../../tensorflow/ops/creation.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { globalStepOf } from '../../../tensorflow/variables/global-step.js';
import type { Variable } from '../../../tensorflow/variables/variable.js';
import { globalVariables } from '../../../tensorflow/variables/variable-scope.js';
import type { SaverLike, TrainingRunner } from '../task/training-runner.js';

export class JsonSaver implements SaverLike {
  readonly saved: string[] = [];
  readonly restored: string[] = [];
  /** How many of the next saves fail, because of a missing directory. */
  failures = 0;
  readonly #slots: readonly { variable: Variable; input: Output; assign: Operation }[];

  constructor(graph: Graph) {
    this.#slots = graph.asDefault(() =>
      globalVariables(graph).map((variable) => {
        const input = placeholder({ dtype: variable.dtype, shape: variable.fullShape });
        return { variable, input, assign: variable.assign(input) };
      }),
    );
  }

  async save(session: TrainingRunner, path: string) {
    const globalStep = globalStepOf(session) as Variable;
    const full = `${path}-${(await session.run(globalStep)).number()}`;
    const values = await session.run(this.#slots.map(({ variable }) => variable));
    const plain = (_key: string, value: unknown) => (typeof value === 'bigint' ? Number(value) : value);
    const text = JSON.stringify(
      values.map((value) => value.toArray()),
      plain,
    );
    const directory = this.failures-- > 0 ? join(dirname(full), 'no', 'such', 'directory') : dirname(full);
    if (directory === dirname(full)) await mkdir(directory, { recursive: true });
    await writeFile(join(directory, 'part'), text);
    await rename(join(directory, 'part'), `${full}.json`);
    this.saved.push(full);
    return full;
  }

  async restore(session: TrainingRunner, path: string) {
    const values = JSON.parse(await readFile(`${path}.json`, 'utf8')) as unknown[];
    const feeds = this.#slots.map(({ input, variable }, i) => {
      const value = values[i] as number | number[];
      const tensor =
        variable.dtype === 'int64'
          ? Tensor.of(BigInt(value as number), { dtype: 'int64' })
          : Tensor.of(value, { dtype: variable.dtype });
      return [input, tensor] as const;
    });
    await session.run(
      this.#slots.map(({ assign }) => assign),
      { feeds },
    );
    this.restored.push(path);
  }

  async latest(_session: TrainingRunner, directory: string) {
    const names = await readdir(directory).catch(() => [] as string[]);
    const steps = names.flatMap((name) => /^model\.ckpt-(\d+)\.json$/.exec(name)?.slice(1) ?? []).map(Number);
    return steps.length === 0 ? undefined : `${directory}/model.ckpt-${Math.max(...steps)}`;
  }
}
