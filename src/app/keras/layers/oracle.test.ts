/**
 * Every layer against Keras: outputs and gradients with equal weights. Python reads the model from `toJson`, and Shoal
 * reads it back from Python's JSON, so that both directions of the architecture are checked as well.
 */
import { beforeAll, describe, expect, test } from 'vitest';
import { askPython } from '../../../../test/python.js';
import { gradients, IndexedSlices } from '../../../tensorflow/gradients/index.js';
import { Graph } from '../../../tensorflow/graph/graph.js';
import type { Output } from '../../../tensorflow/graph/operation.js';
import { placeholder } from '../../../tensorflow/ops/creation.js';
import * as raw from '../../../tensorflow/ops/generated/index.js';
import { addN, cast, div, mul, sum } from '../../../tensorflow/ops/math.js';
import { Session } from '../../../tensorflow/session/session.js';
import { seededRandom } from '../../../tensorflow/tensor/seeded-random.js';
import { type Shape, sizeOf } from '../../../tensorflow/tensor/shape.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import type { Variable } from '../../../tensorflow/variables/variable.js';
import { globalVariables, trainableVariables } from '../../../tensorflow/variables/variable-scope.js';
import { modelFromJson } from '../index.js';
import { LayerBuilder } from '../layer-builder.js';
import { LAYER_CLASSES } from '../saving/registry.js';
import { type AnyModel, layerCases } from '../testing/layer-cases.js';

const random = seededRandom(11);
const weightOf = (variable: Variable): Tensor =>
  Tensor.of(
    Float32Array.from({ length: sizeOf(variable.shape as Shape) }, () => {
      const value = random() - 0.5;
      return variable.name.endsWith('variance') ? value + 1 : value;
    }),
    { shape: variable.shape as Shape },
  );

interface Answer {
  readonly error?: string;
  readonly outputs: readonly unknown[];
  readonly inputs: readonly unknown[];
  readonly weights: Readonly<Record<string, unknown>>;
  readonly json: string;
}

interface Built {
  readonly variables: readonly Variable[];
  readonly inputs: readonly Output[];
  readonly outputs: readonly Output[];
  /** Of the float inputs, then of the trained variables. */
  readonly gradients: readonly (Output | null)[];
  readonly learned: readonly Variable[];
}

interface Ours {
  readonly outputs: readonly Tensor[];
  readonly inputs: readonly Tensor[];
  readonly weights: readonly (readonly [string, Tensor])[];
}

interface Compared {
  readonly ours: Ours;
  readonly theirs: Answer;
  /** Of the model that was read from Python's JSON. */
  readonly back: readonly Tensor[] | Error;
}

const numbers = (value: unknown): number[] => [value].flat(9) as number[];

/** Equal to 1e-5, relative for values above 1. */
function expectClose(ours: Tensor, theirs: unknown, what: string): void {
  const [a, b] = [numbers(ours.toArray()), numbers(theirs)];
  expect(a.length, `${what}: number of elements`).toBe(b.length);
  const scale = Math.max(1, ...b.map(Math.abs));
  expect(Math.max(0, ...a.map((value, i) => Math.abs(value - b[i]!) / scale)), what).toBeLessThan(1e-5);
}

const cases = layerCases();

describe('a layer equals Keras', () => {
  const compared = new Map<string, Compared>();

  const build = (graph: Graph, model: AnyModel, inputs: readonly Tensor[]): Built =>
    graph.asDefault(() => {
      const fed = inputs.map(({ dtype, shape }) => placeholder({ dtype, shape: [null, ...shape.slice(1)] }));
      const { outputs } = new LayerBuilder().build(model.asLayer(), fed, { name: 'model', training: false });
      const variables = globalVariables(graph);
      const one = Tensor.of(1, { dtype: 'int32' });
      const weighted = outputs.map((y) => {
        const count = raw.range(one, raw.addV2(raw.size(y) as Output<'int32'>, one), one);
        return sum(mul(y, div(cast(raw.reshape(count, raw.shape(y)), 'float32'), 10)));
      });
      const trained = new Set(trainableVariables(graph));
      const learned = variables.filter((variable) => trained.has(variable));
      const floats = fed.filter(({ dtype }) => dtype === 'float32');
      const found = gradients([addN(weighted)], [...floats, ...learned]);
      const dense = found.map((one) => (one instanceof IndexedSlices ? one.toDense() : one));
      return { variables, inputs: fed, outputs, gradients: dense, learned };
    });

  /** Runs a model with these weights; default: random ones. */
  const run = async (model: AnyModel, inputs: readonly Tensor[], given?: readonly Tensor[]) => {
    using graph = new Graph();
    const built = build(graph, model, inputs);
    const weights = given ?? built.variables.map(weightOf);
    const session = Session.open({ graph });
    await session.run(graph.asDefault(() => built.variables.map((one, i) => one.assign(weights[i]!))));
    const feeds = built.inputs.map((input, i) => [input, inputs[i]!] as const);
    const [outputs, found] = await session.run([built.outputs, built.gradients], { feeds });
    await session.close();
    const nameOf = ({ name }: Variable) => name.slice('model/'.length);
    return {
      outputs,
      found,
      weights,
      names: built.variables.map(nameOf),
      learned: built.learned.map(nameOf),
    };
  };

  beforeAll(async () => {
    const all: { readonly request: object; readonly weights: readonly Tensor[]; readonly ours: Ours }[] = [];
    for (const { model, inputs } of cases) {
      const { outputs, found, weights, names, learned } = await run(model, inputs);
      const floats = inputs.filter(({ dtype }) => dtype === 'float32').length;
      all.push({
        request: {
          json: model.toJson(),
          inputs: Object.fromEntries(inputs.map((one, i) => [`in${i}`, one.toArray()])),
          weights: Object.fromEntries(names.map((name, i) => [name, weights[i]!.toArray()])),
        },
        weights,
        ours: {
          outputs,
          inputs: found.slice(0, floats) as Tensor[],
          weights: learned.map((name, i) => [name, found[floats + i] as Tensor] as const),
        },
      });
    }
    const program = new URL('../testing/layers.py', import.meta.url);
    const theirs = await askPython<readonly Answer[]>(
      program,
      all.map(({ request }) => request),
    );
    for (const [i, { title, inputs }] of cases.entries()) {
      const [{ ours, weights }, answer] = [all[i]!, theirs[i]!];
      const again = async () =>
        answer.error ? [] : (await run(modelFromJson(answer.json), inputs, weights)).outputs;
      compared.set(title, { ours, theirs: answer, back: await again().catch((error: Error) => error) });
    }
  }, 300_000);

  test.each(cases.map(({ title }) => title))('%s', (title) => {
    const { ours, theirs, back } = compared.get(title)!;
    expect(theirs.error).toBeUndefined();
    for (const [i, output] of ours.outputs.entries()) {
      expectClose(output, theirs.outputs[i], `output ${i}`);
      if (back instanceof Error) throw back;
      expectClose(back[i]!, theirs.outputs[i], `output ${i} of the model from Python's JSON`);
    }
    for (const [i, one] of ours.inputs.entries())
      expectClose(one, theirs.inputs[i], `gradient of input ${i}`);
    for (const [name, one] of ours.weights) {
      const key = Object.keys(theirs.weights).find((own) => name === own || name.endsWith(`/${own}`));
      expectClose(one, theirs.weights[key!], `gradient of ${name}`);
    }
  });

  test('all of those that JSON can contain are among the cases', () => {
    const written = cases.map(({ model }) => model.toJson()).join();
    const missing = Object.keys(LAYER_CLASSES).filter((name) => !written.includes(`"class_name":"${name}"`));
    expect(missing).toEqual([]);
  });
});
