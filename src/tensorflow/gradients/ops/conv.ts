/** First and second gradients of convolution, pooling and image resizing. */
import type { Attrs } from '../../graph/attributes.js';
import type { Operation, Output } from '../../graph/operation.js';
import { build, type Operand } from '../../ops/build.js';
import * as raw from '../../ops/generated/index.js';
import type { GradientFunction, GradientTable } from '../gradient-function.js';
import { firstGradient, firstOnly, inputOf, int32, sameAttrs, shapeOf, single } from '../pieces.js';

const make = (type: string, inputs: readonly Operand[], attrs: Attrs): Output =>
  build(type, inputs, attrs).output();

/** A convolution is linear in both its inputs: the three ops of a kind are each other's gradients. */
function convolution(
  forward: string,
  inputGrad: string,
  filterGrad: string,
  attrNames: readonly string[],
): GradientTable {
  const attrs = (op: Operation): Attrs => sameAttrs(op, attrNames);
  return {
    [forward]: single((op, grad, [forInput, forFilter]) => {
      const [x, filter] = op.inputs as [Output, Output];
      return [
        forInput ? make(inputGrad, [shapeOf(x), filter, grad], attrs(op)) : null,
        forFilter ? make(filterGrad, [x, shapeOf(filter), grad], attrs(op)) : null,
      ];
    }),
    [inputGrad]: single((op, grad) => {
      const [, filter, inner] = op.inputs as [Output, Output, Output];
      return [
        null,
        make(filterGrad, [grad, shapeOf(filter), inner], attrs(op)),
        make(forward, [grad, filter], attrs(op)),
      ];
    }),
    [filterGrad]: single((op, grad) => {
      const [x, , inner] = op.inputs as [Output, Output, Output];
      return [
        make(inputGrad, [shapeOf(x), grad, inner], attrs(op)),
        null,
        make(forward, [x, grad], attrs(op)),
      ];
    }),
  };
}

/** The mean of a window distributes its gradient evenly, which is linear. */
function averagePool(forward: string, backward: string): GradientTable {
  const attrs = ['ksize', 'strides', 'padding', 'data_format'];
  return {
    [forward]: firstOnly((op, grad) => make(backward, [shapeOf(inputOf(op, 0)), grad], sameAttrs(op, attrs))),
    [backward]: single((op, grad) => [null, make(forward, [grad], sameAttrs(op, attrs))]),
  };
}

/** (input, output) determine the position of the maximum; given that, each op is linear in its last tensor. */
function maxPool(
  forward: string,
  backward: string,
  second: string,
  attrNames: readonly string[],
): GradientTable {
  const common = attrNames.filter((name) => name !== 'explicit_paddings');
  const further = (op: Operation, taken: number): readonly Output[] => op.inputs.slice(taken);
  const turned = (type: string): GradientFunction =>
    single((op, grad) => {
      const [x, y] = op.inputs as [Output, Output];
      const made = make(type, [x, y, grad, ...further(op, 3)], sameAttrs(op, common));
      return op.inputs.map((_, i) => (i === 2 ? made : null));
    });
  return {
    [forward]: firstOnly((op, grad) =>
      make(backward, [inputOf(op, 0), op.output(), grad, ...further(op, 1)], sameAttrs(op, attrNames)),
    ),
    [backward]: turned(second),
    [second]: turned(backward),
  };
}

const CONV_2D = ['strides', 'padding', 'explicit_paddings', 'data_format', 'dilations'] as const;
const CONV_3D = ['strides', 'padding', 'data_format', 'dilations'] as const;
const POOL = ['ksize', 'strides', 'padding', 'data_format'] as const;
const RESIZE = ['align_corners', 'half_pixel_centers'] as const;

/** Height and width. */
const imageSize = (x: Output): Output => raw.slice(shapeOf(x), int32([1]), int32([2]));

export const convGradients: GradientTable = {
  ...convolution('Conv2D', 'Conv2DBackpropInput', 'Conv2DBackpropFilter', CONV_2D),
  ...convolution(
    'DepthwiseConv2dNative',
    'DepthwiseConv2dNativeBackpropInput',
    'DepthwiseConv2dNativeBackpropFilter',
    CONV_2D,
  ),
  ...convolution('Conv3D', 'Conv3DBackpropInputV2', 'Conv3DBackpropFilterV2', CONV_3D),
  ...averagePool('AvgPool', 'AvgPoolGrad'),
  ...averagePool('AvgPool3D', 'AvgPool3DGrad'),
  ...maxPool('MaxPool', 'MaxPoolGrad', 'MaxPoolGradGrad', [...POOL, 'explicit_paddings']),
  ...maxPool('MaxPoolV2', 'MaxPoolGradV2', 'MaxPoolGradGradV2', ['padding', 'data_format']),
  ...maxPool('MaxPool3D', 'MaxPool3DGrad', 'MaxPool3DGradGrad', POOL),
  MaxPoolWithArgmax: single((op, grad) => {
    const attrs = sameAttrs(op, ['ksize', 'strides', 'padding', 'include_batch_in_index']);
    return firstGradient(op, make('MaxPoolGradWithArgmax', [inputOf(op, 0), grad, op.output(1)], attrs));
  }),

  ResizeBilinear: firstOnly((op, grad) =>
    make('ResizeBilinearGrad', [grad, inputOf(op, 0)], sameAttrs(op, RESIZE)),
  ),
  ResizeBicubic: firstOnly((op, grad) =>
    make('ResizeBicubicGrad', [grad, inputOf(op, 0)], sameAttrs(op, RESIZE)),
  ),
  ResizeNearestNeighbor: firstOnly((op, grad) =>
    make('ResizeNearestNeighborGrad', [grad, imageSize(inputOf(op, 0))], sameAttrs(op, RESIZE)),
  ),
  ResizeNearestNeighborGrad: single((op, grad) => [
    make('ResizeNearestNeighbor', [grad, imageSize(inputOf(op, 0))], sameAttrs(op, RESIZE)),
    null,
  ]),
  ResizeBilinearGrad: null,
};
