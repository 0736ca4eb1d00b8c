/** Classify and regress: the conventions of TensorFlow Serving's signatures over lists of examples. */

import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { signatureConstants as keys } from '../../../training/saved-model/signatures/constants.js';
import type { SignaturePlan } from '../models/signature-plan.js';
import type { ScoredClass } from '../requests.js';
import { invalidRequest } from '../status.js';

export type Method = 'classify' | 'regress';

const SPECS = {
  classify: { input: keys.classifyInputs, method: keys.classifyMethodName, noun: 'classification' },
  regress: { input: keys.regressInputs, method: keys.regressMethodName, noun: 'regression' },
} as const;

/** Checks that a signature is for the method, as TensorFlow Serving does: by its name only if asked. */
export function checkMethod(method: Method, plan: SignaturePlan, checksName: boolean): void {
  const { input, method: name, noun } = SPECS[method];
  if (checksName && plan.def.methodName !== name)
    throw invalidRequest(`Expected ${noun} signature method_name to be ${name}. Was: ${plan.def.methodName}`);
  if (plan.inputs.length !== 1) throw invalidRequest('Expected one input Tensor.');
  const outputs = Object.keys(plan.def.outputs);
  if (plan.inputs[0]?.name !== input)
    throw invalidRequest(`No ${noun} inputs found in SignatureDef: ${plan.name}`);
  if (method === 'regress') {
    if (outputs.length !== 1) throw invalidRequest('Expected one output Tensor.');
    if (outputs[0] !== keys.regressOutputs)
      throw invalidRequest(`No regression outputs found in SignatureDef: ${plan.name}`);
    return;
  }
  if (outputs.length < 1 || outputs.length > 2)
    throw invalidRequest(`Expected one or two output Tensors, found ${outputs.length}`);
  if (!outputs.includes(keys.classifyOutputClasses) && !outputs.includes(keys.classifyOutputScores))
    throw invalidRequest(
      `Expected classification signature outputs to contain at least one of "${keys.classifyOutputClasses}" or ` +
        `"${keys.classifyOutputScores}". Signature was: ${plan.name}`,
    );
}

export function examplesTensor(examples: readonly Uint8Array[]): Tensor {
  if (examples.length === 0) throw invalidRequest('Input is empty.');
  return Tensor.of(examples, { dtype: 'string', shape: [examples.length] });
}

const shapeText = ({ shape }: Tensor): string => `[${shape.join(',')}]`;

export function classificationsOf(
  outputs: Readonly<Record<string, Tensor>>,
  count: number,
): readonly (readonly ScoredClass[])[] {
  const classes = outputs[keys.classifyOutputClasses];
  const scores = outputs[keys.classifyOutputScores];
  for (const [what, tensor] of [
    ['classes', classes],
    ['scores', scores],
  ] as const) {
    if (!tensor) continue;
    if (tensor.rank !== 2)
      throw invalidRequest(`Expected Tensor shape: [batch_size num_classes] but got ${shapeText(tensor)}`);
    const dtype = what === 'classes' ? 'string' : 'float32';
    const proto = what === 'classes' ? 'DT_STRING' : 'DT_FLOAT';
    if (tensor.dtype !== dtype)
      throw invalidRequest(`Expected ${what} Tensor of ${proto}. Got: ${tensor.dtype}`);
    if (tensor.shape[0] !== count)
      throw invalidRequest(`Expected ${what} output batch size of ${count}. Got: ${tensor.shape[0]}`);
  }
  const width = classes?.shape[1] ?? scores?.shape[1] ?? 0;
  if (classes && scores && scores.shape[1] !== width)
    throw invalidRequest(
      `Tensors class and score should match in dim_size(1). Got ${width} vs. ${scores.shape[1]}`,
    );
  const decoder = new TextDecoder();
  const labels = classes?.bytes().map((bytes) => decoder.decode(bytes));
  const values = scores?.data as Float32Array | undefined;
  return Array.from({ length: count }, (_, row) =>
    Array.from({ length: width }, (_, column) => {
      const at = row * width + column;
      return { label: labels?.[at] ?? '', score: values?.[at] ?? 0 };
    }),
  );
}

export function regressionsOf(outputs: Readonly<Record<string, Tensor>>, count: number): readonly number[] {
  const tensor = outputs[keys.regressOutputs];
  if (!tensor) throw invalidRequest(`Could not find output tensor '${keys.regressOutputs}'`);
  const { shape, dtype } = tensor;
  if (!(shape.length === 1 || (shape.length === 2 && shape[1] === 1)))
    throw invalidRequest(
      `Expected output Tensor shape to be either [batch_size] or [batch_size, 1] but got ${shapeText(tensor)}`,
    );
  if (shape[0] !== count)
    throw invalidRequest(`Input batch size did not match output batch size: ${count} vs. ${shape[0]}`);
  if (dtype !== 'float32') throw invalidRequest(`Expected output Tensor of DT_FLOAT.  Got: ${dtype}`);
  return Array.from(tensor.data as Float32Array);
}
