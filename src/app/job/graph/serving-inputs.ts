/** The inputs of the graph that a job exports: placeholders like the input of training, or serialized examples. */
import { invalid } from '../../../base/errors/errors.js';
import { Graph } from '../../../tensorflow/graph/graph.js';
import type { Output } from '../../../tensorflow/graph/operation.js';
import { SparseTensor } from '../../../tensorflow/layers/sparse/sparse-tensor.js';
import { placeholder } from '../../../tensorflow/ops/creation.js';
import { type Features, parseExample } from '../../../training/input/dataset/parse-example.js';
import { inputName } from '../definition/call-model.js';
import type { InputValues, JobDefinition, ModelInput } from '../definition/define-job.js';
import { modelInput } from './training-graph.js';
import { unshardedInput } from './unsharded-input.js';

type Input = ModelInput<InputValues>;

/** The input of a signature that takes serialized examples, as TensorFlow's exporters name it. */
export const EXAMPLES = 'examples';

/** The inputs that serialized examples contain, as the training input has them. */
export function parsedExamples(
  job: JobDefinition,
  spec: Features,
): { readonly serialized: Output; readonly parsed: Partial<Input> } {
  const like = inputLike(job);
  const hint = `The inputs are ${[...like.keys()].join(', ')}. Labels are not among the examples to serve.`;
  if (like.has(EXAMPLES) && !(EXAMPLES in spec))
    throw invalid(`Job '${job.name}' has an input '${EXAMPLES}', and export.examples adds another`, {
      hint: 'Rename the input, or declare export.signatures.',
    });
  for (const [name, feature] of Object.entries(spec)) {
    const own = like.get(name);
    if (!own)
      throw invalid(`export.examples of job '${job.name}' has '${name}', which is no input of the model`, {
        hint,
      });
    const isSparse = own.shape === undefined;
    if (own.dtype === feature.dtype && isSparse === (feature.kind === 'variable')) continue;
    const kind = (sparse: boolean, dtype: string) => `${sparse ? 'sparse' : 'dense'} ${dtype}`;
    throw invalid(
      `export.examples of job '${job.name}' parses '${name}' as ${kind(feature.kind === 'variable', feature.dtype)}; ` +
        `the model takes ${kind(isSparse, own.dtype)}`,
      { hint: 'Parse the input of training and the examples with the same specification.' },
    );
  }
  const serialized = placeholder({ dtype: 'string', shape: [null], name: 'input_example_tensor' });
  return { serialized, parsed: parseExample(serialized, spec) as Partial<Input> };
}

/** Placeholders like the input of training, except for inputs that are given. */
export function placeholdersFor(job: JobDefinition, given: Partial<Input>): Partial<Input> {
  return Object.fromEntries(
    [...inputLike(job)]
      .filter(([name]) => !(name in given))
      .map(([name, { dtype, rank, shape }]) => [
        name,
        shape === undefined
          ? SparseTensor.placeholder({ dtype, name, ...(rank === null ? {} : { rank }) })
          : placeholder({ dtype, shape, name }),
      ]),
  ) as Partial<Input>;
}

/** What the inputs of training are like, by name. */
function inputLike(job: JobDefinition): ReadonlyMap<string, ReturnType<typeof describe>> {
  using scratch = new Graph();
  const input = scratch.asDefault(() => modelInput(inputName(job), unshardedInput(job)));
  return new Map(Object.entries(input).map(([name, value]) => [name, describe(value)]));
}

/** A sparse tensor has no `shape`. The first dimension is the batch, of any size. */
function describe(value: Output | SparseTensor) {
  if (value instanceof SparseTensor) return { dtype: value.dtype, rank: value.rank, shape: undefined };
  const { dtype, shape } = value;
  return {
    dtype,
    rank: null,
    shape: shape === null ? null : shape.map((size, i) => (i === 0 ? null : size)),
  };
}
