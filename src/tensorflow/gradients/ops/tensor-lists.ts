/** Gradients of tensor lists, in which loops store their iterations: a list of gradients in the same order. */
import type { Output } from '../../graph/operation.js';
import * as raw from '../../ops/generated/index.js';
import type { GradientTable } from '../gradient-function.js';
import { inputOf, int32, shapeOf, single } from '../pieces.js';

const rowShape = (x: Output): Output => raw.slice(shapeOf(x), int32([1]), int32([-1]));

export const tensorListGradients: GradientTable = {
  EmptyTensorList: null,
  TensorListReserve: null,
  TensorListElementShape: null,
  TensorListLength: null,

  TensorListPushBack: single((op, grad) => {
    const value = inputOf(op, 1);
    const { outputHandle, tensor } = raw.tensorListPopBack(grad, shapeOf(value), {
      elementDtype: value.dtype,
    });
    return [outputHandle, tensor];
  }),
  TensorListPopBack: (op, [forRest, forValue]) => {
    const [rest, value] = [op.output(0), op.output(1)];
    return [raw.tensorListPushBack(forRest ?? raw.zerosLike(rest), forValue ?? raw.zerosLike(value)), null];
  },
  TensorListStack: single((_op, grad) => [raw.tensorListFromTensor(grad, rowShape(grad)), null]),
  TensorListFromTensor: single((op, grad) => {
    const x = inputOf(op, 0);
    return [raw.tensorListStack(grad, rowShape(x), { elementDtype: x.dtype }), null];
  }),
  TensorListGetItem: single((op, grad) => {
    const [list, index] = op.inputs as [Output, Output];
    const shape = raw.tensorListElementShape(list, { shapeType: 'int32' });
    const empty = raw.tensorListReserve(shape, raw.tensorListLength(list), { elementDtype: grad.dtype });
    return [raw.tensorListSetItem(empty, index, grad), null, null];
  }),
  TensorListSetItem: single((op, grad) => {
    const [, index, item] = op.inputs as [Output, Output, Output];
    return [
      raw.tensorListSetItem(grad, index, raw.zerosLike(item)),
      null,
      raw.tensorListGetItem(grad, index, shapeOf(item), { elementDtype: item.dtype }),
    ];
  }),
};
