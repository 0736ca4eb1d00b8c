/**
 * Gradients of fused batch normalization. The first order has its own op; the second is that of the same
 * formula written out. The returned moments are for moving averages and propagate no gradient.
 */
import type { Operation, Output } from '../../graph/operation.js';
import { build } from '../../ops/build.js';
import * as raw from '../../ops/generated/index.js';
import { Tensor } from '../../tensor/tensor.js';
import type { GradientFunction, GradientTable } from '../gradient-function.js';
import { int32, sameAttrs, single } from '../pieces.js';

const isTraining = (op: Operation): boolean => op.attr('is_training') === true;

const forward = (gradientType: string): GradientFunction =>
  single((op, grad) => {
    const [x, scale, , mean, variance] = op.inputs as [Output, Output, Output, Output, Output];
    const saved = isTraining(op) ? [op.output(3), op.output(4)] : [mean, variance];
    const cached = op.type === 'FusedBatchNormV3' ? [op.output(5)] : [];
    const attrs = sameAttrs(op, ['epsilon', 'data_format', 'is_training']);
    const made = build(gradientType, [grad, x, scale, ...saved, ...cached], attrs);
    return [made.output(0), made.output(1), made.output(2), null, null];
  });

/** The computation of the gradient op, in ops that have gradients: (dx, dscale, doffset). */
function writtenOut(op: Operation, inner: Output, image: Output, scale: Output): [Output, Output, Output] {
  const format = String(op.attr('data_format'));
  const rank = format.length;
  const last = rank - 1;
  // Converts to channels last with [0, 2, 3, 1] and back with [0, 3, 1, 2].
  const isFirst = format.startsWith('NC');
  const places = Array.from({ length: rank - 2 }, (_, i) => i);
  const toLast = int32([0, ...places.map((i) => i + 2), 1]);
  const toFirst = int32([0, last, ...places.map((i) => i + 1)]);
  const [dy, x] = isFirst ? [raw.transpose(inner, toLast), raw.transpose(image, toLast)] : [inner, image];

  const axes = int32([0, ...places.map((i) => i + 1)]);
  const average = (value: Output): Output => raw.mean(value, axes);
  const [, , , given, spread] = op.inputs as [Output, Output, Output, Output, Output];
  const centered = raw.sub(x, isTraining(op) ? average(x) : given);
  const variance = isTraining(op) ? average(raw.square(centered)) : spread;
  const epsilon = Tensor.of(op.attr('epsilon') as number, { dtype: variance.dtype });
  const inverse = raw.rsqrt(raw.addV2(variance, epsilon));
  const normal = raw.mul(centered, inverse);
  const pull = raw.mul(normal, average(raw.mul(dy, normal)));
  const moved = isTraining(op) ? raw.sub(raw.sub(dy, average(dy)), pull) : dy;
  const dx = raw.mul(moved, raw.mul(scale, inverse));
  return [isFirst ? raw.transpose(dx, toFirst) : dx, raw.sum(raw.mul(dy, normal), axes), raw.sum(dy, axes)];
}

const backward: GradientFunction = (op, grads, context) => {
  const xs = op.inputs.slice(0, 3).map((input) => raw.identity(input)) as [Output, Output, Output];
  const written = writtenOut(op, ...xs);
  const flowing = written.flatMap((_, i) => (grads[i] ? [i] : []));
  const found = context.gradients(
    flowing.map((i) => written[i] as Output),
    xs,
    { gradYs: flowing.map((i) => grads[i] as Output) },
  );
  return op.inputs.map((_, i) => found[i] ?? null);
};

export const batchNormGradients: GradientTable = {
  FusedBatchNorm: forward('FusedBatchNormGrad'),
  FusedBatchNormV2: forward('FusedBatchNormGradV2'),
  FusedBatchNormV3: forward('FusedBatchNormGradV3'),
  FusedBatchNormGrad: backward,
  FusedBatchNormGradV2: backward,
  FusedBatchNormGradV3: backward,
};
