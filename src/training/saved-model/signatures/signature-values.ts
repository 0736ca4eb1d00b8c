/** The inputs and outputs of a signature: JavaScript values or tensors to feeds, fetched tensors to results. */
import { invalid } from '../../../base/errors/errors.js';
import { type TensorInfo, TypeSpecProto_TypeSpecClass } from '../../../base/proto/generated/model_pb.js';
import { shapeFromProto } from '../../../tensorflow/graph/attributes.js';
import type { Graph } from '../../../tensorflow/graph/graph.js';
import type { Output } from '../../../tensorflow/graph/operation.js';
import { fedTensor } from '../../../tensorflow/session/feeds.js';
import { type DType, dtypeFromNumber } from '../../../tensorflow/tensor/dtype.js';
import type { PartialShape } from '../../../tensorflow/tensor/shape.js';
import type { Tensor, TensorLike } from '../../../tensorflow/tensor/tensor.js';
import { isRaggedParts, partsOfRagged, RaggedTensorValue, type RaggedValue } from './ragged.js';
import { namesOf } from './signature-def.js';

/** A sparse tensor's value. */
export interface SparseValue<T = TensorLike> {
  readonly indices: T;
  readonly values: T;
  readonly denseShape: T;
}

/** What an input takes: a tensor or nested arrays; the parts of a sparse or ragged one; ragged nested arrays. */
export type InputValue = TensorLike | SparseValue | RaggedValue | readonly TensorLike[];
export type OutputValue = Tensor | SparseValue<Tensor> | RaggedTensorValue | readonly Tensor[];

/** One input or output, as a client sees it. */
export interface TensorSpec {
  readonly dtype: DType;
  readonly shape: PartialShape;
  readonly kind: 'dense' | 'sparse' | 'ragged' | 'composite';
  /** The tensors of the graph behind it. */
  readonly tensors: readonly string[];
}

export function specOf(info: TensorInfo): TensorSpec {
  const { encoding } = info;
  const tensors = namesOf(info);
  const shape = info.tensorShape ? shapeFromProto(info.tensorShape) : null;
  const dtype = info.dtype === 0 ? 'variant' : dtypeFromNumber(info.dtype);
  if (encoding.case === 'compositeTensor') {
    const isRagged =
      encoding.value.typeSpec?.typeSpecClass === TypeSpecProto_TypeSpecClass.RAGGED_TENSOR_SPEC;
    return { dtype, shape, kind: isRagged ? 'ragged' : 'composite', tensors };
  }
  return { dtype, shape, kind: encoding.case === 'cooSparse' ? 'sparse' : 'dense', tensors };
}

export interface SignatureEntry {
  readonly name: string;
  readonly spec: TensorSpec;
  readonly outputs: readonly Output[];
}

export const entryOf = (graph: Graph, name: string, info: TensorInfo): SignatureEntry => {
  const spec = specOf(info);
  return { name, spec, outputs: spec.tensors.map((tensor) => graph.output(tensor)) };
};

/** The feeds of one input. */
export function bindInput(signature: string, entry: SignatureEntry, value: InputValue): Tensor[] {
  const { name, spec, outputs } = entry;
  const what = `The input '${name}' of signature '${signature}'`;
  const parts = partsOf(what, spec, outputs.length, value);
  return outputs.map((output, i) => {
    const isWhole = spec.kind === 'dense';
    const which = isWhole ? what : `${what}, part ${i} (${output.name}),`;
    const shape = isWhole ? narrower(spec.shape, output.shape) : output.shape;
    return fedTensor(which, { dtype: output.dtype, shape }, parts[i] as TensorLike);
  });
}

/** The shape in the graph may be less specific than that of the signature. */
function narrower(declared: PartialShape, known: PartialShape): PartialShape {
  if (declared === null || known === null || declared.length !== known.length) return known ?? declared;
  return known.map((size, i) => size ?? declared[i] ?? null);
}

function partsOf(
  what: string,
  { kind }: TensorSpec,
  count: number,
  value: InputValue,
): readonly TensorLike[] {
  switch (kind) {
    case 'dense':
      return [value as TensorLike];
    case 'sparse': {
      const { indices, values, denseShape } = (value ?? {}) as Partial<SparseValue>;
      if (indices === undefined || values === undefined || denseShape === undefined)
        throw invalid(`${what} is sparse: pass { indices, values, denseShape }`);
      return [indices, values, denseShape];
    }
    case 'ragged': {
      const parts = isRaggedParts(value)
        ? [value.values, ...value.nestedRowSplits]
        : partsOfRagged(value, count, what);
      if (parts.length !== count)
        throw invalid(`${what} is ragged with ${count - 1} row splits; ${parts.length - 1} were given`);
      return parts;
    }
    default:
      if (!Array.isArray(value) || value.length !== count)
        throw invalid(`${what} is made of ${count} tensors: pass them as an array`);
      return value as TensorLike[];
  }
}

/** The result of one output out of its tensors. */
export function resultOf({ spec }: SignatureEntry, tensors: readonly Tensor[]): OutputValue {
  switch (spec.kind) {
    case 'dense':
      return tensors[0] as Tensor;
    case 'sparse': {
      const [indices, values, denseShape] = tensors as [Tensor, Tensor, Tensor];
      return { indices, values, denseShape };
    }
    case 'ragged':
      return new RaggedTensorValue(tensors[0] as Tensor, tensors.slice(1));
    default:
      return tensors;
  }
}
