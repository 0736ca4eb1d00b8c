/** Calls the model function of a job, and checks what it and the input return: programs in JavaScript have no other check. */
import { invalid } from '../../../base/errors/errors.js';
import { closestName, type Names } from '../../../base/errors/option-names.js';
import type { OutputLike } from '../../../tensorflow/graph/operation.js';
import { SparseTensor } from '../../../tensorflow/layers/sparse/sparse-tensor.js';
import { CombinedOptimizer } from '../../../tensorflow/optimizers/combined.js';
import { Optimizer } from '../../../tensorflow/optimizers/optimizer.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import type { InputValues, JobDefinition, JobModel, JobParams, ModelParts } from './define-job.js';

const PARTS: Names<JobModel> = { loss: true, optimizer: true, outputs: true };
const EXAMPLE = 'Return { loss, optimizer, outputs: { … } } from the model function.';

/** What the model function returned, checked. */
export type CalledModel = Omit<JobModel, 'optimizer'> & { readonly optimizer: Optimizer };

/** `needed`: what the caller uses of the model. */
export function callModel(
  job: JobDefinition,
  parts: ModelParts<InputValues, JobParams>,
  needed: readonly ('loss' | 'optimizer')[],
): CalledModel {
  const what = `The model of job '${job.name}'`;
  const made: unknown = job.model(parts);
  if (made instanceof Promise) {
    // Nobody awaits it: the error below is the one to see.
    made.catch(() => {});
    throw invalid(`${what} returns a promise`, {
      hint: 'The model builds a graph, which needs no await: remove async. Read what it needs before defineJob.',
    });
  }
  if (typeof made !== 'object' || made === null || Array.isArray(made)) {
    const kind = Array.isArray(made) ? 'a list' : made === undefined ? 'nothing' : String(made);
    throw invalid(`${what} returns ${kind}`, { hint: EXAMPLE });
  }
  const given = made as Partial<Record<keyof JobModel, unknown>>;
  const others = Object.keys(given).filter((name) => !Object.hasOwn(PARTS, name));
  for (const name of Object.keys(PARTS) as (keyof JobModel)[]) {
    if (given[name] !== undefined && given[name] !== null) continue;
    const similar = others.find((other) => closestName(other, [name]) !== undefined);
    if (similar !== undefined)
      throw invalid(`${what} returns '${similar}', which is none of ${Object.keys(PARTS).join(', ')}`, {
        hint: `Did you mean '${name}'?`,
      });
    if (!needed.some((one) => one === name)) continue;
    const listed = Object.keys(given).join(', ');
    throw invalid(`${what} returns no ${name}${listed === '' ? '' : `; it returns ${listed}`}`, {
      hint: EXAMPLE,
    });
  }
  if (needed.includes('loss') && !isOutput(given.loss))
    throw invalid(`${what} returns a loss that is not a tensor of the graph`, {
      hint: 'Compute the loss of a batch from the input, for example with tf.losses.meanSquaredError.',
    });
  const optimizer =
    Array.isArray(given.optimizer) && needed.includes('optimizer')
      ? new CombinedOptimizer(given.optimizer)
      : given.optimizer;
  if (needed.includes('optimizer') && !(optimizer instanceof Optimizer))
    throw invalid(`${what} returns an optimizer that is not one`, {
      hint: 'Return an optimizer of tf.train, such as tf.train.adam(0.001).',
    });
  checkOutputs(what, given.outputs ?? {});
  return {
    ...(given as unknown as CalledModel),
    optimizer: optimizer as Optimizer,
    outputs: (given.outputs ?? {}) as JobModel['outputs'] & object,
  };
}

/** How errors name the input of a job. */
export const inputName = (job: JobDefinition): string => `The input of job '${job.name}'`;

/** What the input of a job, or of its evaluation, returns must have names; `what` returns it. */
export function checkInput(what: string, input: unknown): void {
  if (input === undefined) return;
  const hint = 'Name each one: return { x, y }, or a dataset of such elements.';
  if (typeof input !== 'object' || input === null)
    throw invalid(`${what} returns ${input === null ? 'null' : 'a value without a name'}`, { hint });
  if ('then' in input && typeof input.then === 'function') {
    if (input instanceof Promise) input.catch(() => {});
    throw invalid(`${what} returns a promise`, {
      hint: 'The input builds a graph, which needs no await: remove async. Read what it needs before defineJob.',
    });
  }
  const isValue =
    Array.isArray(input) ||
    ArrayBuffer.isView(input) ||
    isOutput(input) ||
    [Tensor, SparseTensor, Map].some((type) => input instanceof type);
  if (isValue) throw invalid(`${what} returns values without names`, { hint });
}

function checkOutputs(what: string, outputs: unknown): void {
  const hint = 'Name each output: outputs: { prediction, w }.';
  if (typeof outputs !== 'object' || Array.isArray(outputs) || isOutput(outputs))
    throw invalid(`${what} returns outputs without names`, { hint });
  for (const [name, output] of Object.entries(outputs as object)) {
    if (isOutput(output)) continue;
    throw invalid(`${what} returns an output '${name}' that is not a tensor of the graph`, { hint });
  }
}

const isOutput = (value: unknown): value is OutputLike =>
  typeof (value as Partial<OutputLike> | null | undefined)?.toOutput === 'function';
