/** The examples of a model as tensors: the inputs by name, the labels of its outputs, the weights of examples. */
import { invalid, messageOf } from '../../../base/errors/errors.js';
import type { Output } from '../../../tensorflow/graph/operation.js';
import type { DType } from '../../../tensorflow/tensor/dtype.js';
import { formatShape, isCompatible } from '../../../tensorflow/tensor/shape.js';
import { Tensor, type TensorLike } from '../../../tensorflow/tensor/tensor.js';
import type { Network } from '../network.js';
import type { Compiled } from './compile.js';
import { asTensor, type Examples, type Labels, labelRows, labelsOf, namedExamples, Rows } from './data.js';
import { checkClasses } from './labels.js';

export interface GivenExamples {
  readonly x: Examples;
  /** Undefined for predictions. */
  readonly y?: Labels | undefined;
  readonly sampleWeight?: TensorLike | undefined;
}

export class ModelData {
  readonly #network: Network;

  constructor(network: Network) {
    this.#network = network;
  }

  /** The examples; the labels have the dtypes that they have in memory. */
  rows(method: string, { x, y, sampleWeight }: GivenExamples): Rows {
    const { inputs, outputNames } = this.#network;
    const given = namedExamples(
      x,
      inputs.map(({ name }) => name),
    );
    const tensors = inputs.map(({ name, type }) => {
      const tensor = exampleTensor(name, given[name]!, type?.dtype);
      if (type) checkShape(name, tensor, type.shape);
      return [name, tensor] as const;
    });
    const names = labelRows(outputNames);
    const ys = method === 'predict' ? [] : labelsOf(method, y as Labels, outputNames);
    return new Rows({
      ...Object.fromEntries(tensors),
      ...Object.fromEntries(ys.map((one, i) => [names[i] as string, asTensor(one)])),
      ...(sampleWeight !== undefined && { sampleWeight: asTensor(sampleWeight, 'float32') }),
    });
  }

  labels({ tensors }: Rows): Readonly<Record<string, Tensor>> {
    const names = labelRows(this.#network.outputNames);
    return Object.fromEntries(names.map((name) => [name, tensors[name] as Tensor]));
  }
}

function checkShape(name: string, { shape }: Tensor, expected: readonly (number | null)[]): void {
  if (shape.length === 0 || isCompatible(shape, expected)) return;
  throw invalid(
    `The examples of input '${name}' have shape ${formatShape(shape)}; the model takes ${formatShape(expected)}`,
    {
      hint: 'The first axis counts the examples; tf.keras.Input has the shape of one.',
    },
  );
}

/** An input's examples, of the dtype that the model declares. */
function exampleTensor(name: string, value: TensorLike, dtype: DType | undefined): Tensor {
  try {
    return asTensor(value, dtype);
  } catch (cause) {
    throw invalid(
      `The examples of input '${name}'${dtype ? `, which is ${dtype},` : ''} are wrong: ${messageOf(cause)}`,
      { cause },
    );
  }
}

export function checkLabels(
  { outputs }: Compiled,
  what: string,
  rows: Rows,
  predictions: readonly Output[],
): void {
  const names = labelRows(outputs.map(({ name }) => name));
  for (const [i, { takesClasses }] of outputs.entries()) {
    const name = names[i] as string;
    const classes = predictions[i]?.shape?.at(-1) ?? null;
    if (takesClasses) checkClasses(`${what}${name}`, rows.tensors[name] as Tensor, classes);
  }
}

/** The rows with labels of the dtypes that the graph was built for. */
export function conform(rows: Rows, labels: Readonly<Record<string, Output>>): Rows {
  return Object.entries(labels).reduce((all, [name, label]) => conformOne(all, name, label), rows);
}

function conformOne(rows: Rows, name: string, { dtype }: Output): Rows {
  const y = rows.tensors[name];
  if (!y || y.dtype === dtype) return rows;
  try {
    return new Rows({ ...rows.tensors, [name]: asTensor(y, dtype) });
  } catch (cause) {
    throw invalid(
      `The labels ${name} are ${y.dtype}, those of the first call were ${dtype}; they cannot be converted: ${messageOf(cause)}`,
      {
        cause,
        hint: `Give the labels of every call as ${y.dtype}, or call compile again; the weights stay.`,
      },
    );
  }
}

export function joined(parts: readonly Tensor[]): Tensor {
  const [first] = parts;
  if (!first || parts.length === 1) return first as Tensor;
  const count = parts.reduce((sum, { shape }) => sum + (shape[0] as number), 0);
  const all = Tensor.allocate([count, ...first.shape.slice(1)], first.dtype);
  let at = 0;
  for (const { data } of parts as readonly Tensor<'float32'>[]) {
    (all.data as Float32Array).set(data, at);
    at += data.length;
  }
  return all;
}
