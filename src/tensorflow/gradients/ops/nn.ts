/** First and second gradients of activations, softmax, cross entropies, biases and normalization. */
import type { Operation, Output } from '../../graph/operation.js';
import { build } from '../../ops/build.js';
import * as raw from '../../ops/generated/index.js';
import { Tensor } from '../../tensor/tensor.js';
import type { GradientFunction, GradientTable } from '../gradient-function.js';
import { firstGradient, firstOnly, inputOf, int32, sameAttrs, shapeOf, single } from '../pieces.js';
import { batchNormGradients } from './batch-norm.js';
import { unbroadcastPair } from './broadcast.js';

const lastAxis = (): Tensor => int32(-1);
const sumLast = (x: Output): Output => raw.sum(x, lastAxis(), { keepDims: true });
const scalar = (value: number, like: Output): Tensor => Tensor.of(value, { dtype: like.dtype });

/** Uses the op's gradient op, which takes the gradient and the output. */
const byOutput = (type: string): GradientFunction =>
  firstOnly((op, grad) => build(type, [grad, op.output()]).output());

/** A gradient op that is linear in its first input and piecewise constant in its second. */
const flatIn = (attrs: readonly string[] = []): GradientFunction =>
  firstOnly((op, grad) => build(op.type, [grad, inputOf(op, 1)], sameAttrs(op, attrs)).output());

/** EluGrad and SeluGrad: the output is negative where the function is exponential. */
const exponential: GradientFunction = single((op, grad) => {
  const [inner, output] = op.inputs as [Output, Output];
  const isCurved = raw.less(output, raw.zerosLike(output));
  const second = raw.selectV2(isCurved, raw.mul(grad, inner), raw.zerosLike(output));
  return [build(op.type, [grad, output]).output(), second];
});

/** The gradient of softmax: the incoming gradient minus its mean under the softmax, times the softmax. */
const throughSoftmax = (softmax: Output, grad: Output): Output =>
  raw.mul(raw.sub(grad, sumLast(raw.mul(grad, softmax))), softmax);

/** The gradient of the logits: one term for the loss and one for the op's second output, the gradient itself. */
function logitsGradient(op: Operation, forLoss: Output | undefined, forBackprop: Output | undefined): Output {
  const parts: Output[] = [];
  if (forLoss) parts.push(raw.mul(raw.expandDims(forLoss, lastAxis()), op.output(1)));
  if (forBackprop) parts.push(throughSoftmax(raw.softmax(inputOf(op, 0)), forBackprop));
  return parts.length === 1 ? (parts[0] as Output) : raw.addN(parts);
}

/** Whether one of the two is known to be broadcast to the other. */
function isBroadcast(a: Output, b: Output): boolean {
  return (
    a.shape?.some((dim, axis) => dim !== b.shape?.[axis] && (dim === 1 || b.shape?.[axis] === 1)) ?? false
  );
}

const softmaxCrossEntropy: GradientFunction = (op, [forLoss, forBackprop]) => {
  const [logits, labels] = op.inputs as [Output, Output];
  const forLogits = logitsGradient(op, forLoss, forBackprop);
  if (!forLoss) return [forLogits, null];
  const forLabels = raw.neg(raw.mul(raw.expandDims(forLoss, lastAxis()), raw.logSoftmax(logits)));
  if (!isBroadcast(logits, labels)) return [forLogits, forLabels];
  return unbroadcastPair(logits, labels, forLogits, forLabels);
};

const isChannelsFirst = (op: Operation): boolean => String(op.attr('data_format')).startsWith('NC');

/** The shape of the bias in a tensor of that rank: 1 except along the channels. */
const biasAddGrad = firstOnly((op, grad) => {
  const x = inputOf(op, 0);
  const shape = shapeOf(x);
  if (!isChannelsFirst(op)) return raw.broadcastTo(grad, shape);
  const trailing = raw.fill(raw.expandDims(raw.sub(raw.rank(x), int32(2)), int32(0)), int32(1));
  return raw.broadcastTo(raw.reshape(grad, raw.concatV2([raw.shape(grad), trailing], int32(0))), shape);
});

export const nnGradients: GradientTable = {
  Relu: byOutput('ReluGrad'),
  ReluGrad: flatIn(),
  Relu6: byOutput('Relu6Grad'),
  Relu6Grad: flatIn(),
  LeakyRelu: firstOnly((op, grad) =>
    build('LeakyReluGrad', [grad, inputOf(op, 0)], sameAttrs(op, ['alpha'])).output(),
  ),
  LeakyReluGrad: flatIn(['alpha']),
  Elu: byOutput('EluGrad'),
  EluGrad: exponential,
  Selu: byOutput('SeluGrad'),
  SeluGrad: exponential,
  Softplus: firstOnly((op, grad) => raw.softplusGrad(grad, inputOf(op, 0))),
  SoftplusGrad: single((op, grad) => {
    const [inner, x] = op.inputs as [Output, Output];
    const slope = raw.sigmoid(x);
    return [raw.softplusGrad(grad, x), raw.sigmoidGrad(slope, raw.mul(grad, inner))];
  }),
  Softsign: firstOnly((op, grad) => raw.softsignGrad(grad, inputOf(op, 0))),
  SoftsignGrad: single((op, grad) => {
    const [inner, x] = op.inputs as [Output, Output];
    const size = raw.addV2(raw.abs(x), scalar(1, x));
    const cube = raw.mul(size, raw.square(size));
    const bend = raw.realDiv(raw.mul(raw.sign(x), scalar(-2, x)), cube);
    return [raw.softsignGrad(grad, x), raw.mul(raw.mul(grad, inner), bend)];
  }),
  Sigmoid: firstOnly((op, grad) => raw.sigmoidGrad(op.output(), grad)),
  SigmoidGrad: single((op, grad) => {
    const [y, inner] = op.inputs as [Output, Output];
    const bend = raw.sub(scalar(1, y), raw.mul(y, scalar(2, y)));
    return [raw.mul(raw.mul(grad, inner), bend), raw.sigmoidGrad(y, grad)];
  }),

  Softmax: firstOnly((op, grad) => throughSoftmax(op.output(), grad)),
  LogSoftmax: firstOnly((op, grad) => raw.sub(grad, raw.mul(sumLast(grad), raw.exp(op.output())))),
  SoftmaxCrossEntropyWithLogits: softmaxCrossEntropy,
  SparseSoftmaxCrossEntropyWithLogits: (op, [forLoss, forBackprop]) =>
    firstGradient(op, logitsGradient(op, forLoss, forBackprop)),

  BiasAdd: single((op, grad) => [
    grad,
    build('BiasAddGrad', [grad], sameAttrs(op, ['data_format'])).output(),
  ]),
  BiasAddV1: single((_op, grad) => [grad, raw.biasAddGrad(grad)]),
  BiasAddGrad: biasAddGrad,
  LRN: firstOnly((op, grad) =>
    build(
      'LRNGrad',
      [grad, inputOf(op, 0), op.output()],
      sameAttrs(op, ['depth_radius', 'bias', 'alpha', 'beta']),
    ).output(),
  ),
  ...batchNormGradients,
  InTopK: null,
  InTopKV2: null,
};
