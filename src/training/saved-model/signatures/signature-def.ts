/** Signatures: what a model takes and returns, by names that clients use. TensorFlow's functions in camelCase. */
import { create } from '@bufbuild/protobuf';
import { invalid } from '../../../base/errors/errors.js';
import { type TensorShapeProto, TensorShapeProtoSchema } from '../../../base/proto/generated/graph_pb.js';
import {
  type SignatureDef,
  SignatureDefSchema,
  type TensorInfo,
  TensorInfoSchema,
} from '../../../base/proto/generated/model_pb.js';
import { isOutputLike, type OutputLike } from '../../../tensorflow/graph/operation.js';
import { SparseTensor } from '../../../tensorflow/layers/sparse/sparse-tensor.js';
import { type DType, dtypeFromNumber, dtypeNumber } from '../../../tensorflow/tensor/dtype.js';
import type { PartialShape } from '../../../tensorflow/tensor/shape.js';
import { signatureConstants as keys } from './constants.js';

export type SignatureTensor = OutputLike | SparseTensor | TensorInfo;

function shapeProto(shape: PartialShape): TensorShapeProto {
  return create(
    TensorShapeProtoSchema,
    shape === null ? { unknownRank: true } : { dim: shape.map((size) => ({ size: BigInt(size ?? -1) })) },
  );
}

/** Describes a tensor of the graph: its name, type and shape. */
export function buildTensorInfo(tensor: SignatureTensor): TensorInfo {
  if (tensor instanceof SparseTensor) {
    const { values, indices, denseShape } = tensor;
    const { rank } = tensor;
    return create(TensorInfoSchema, {
      encoding: {
        case: 'cooSparse',
        value: {
          valuesTensorName: values.name,
          indicesTensorName: indices.name,
          denseShapeTensorName: denseShape.name,
        },
      },
      dtype: dtypeNumber(values.dtype),
      tensorShape: shapeProto(rank === null ? null : new Array<null>(rank).fill(null)),
    });
  }
  if (!isOutputLike(tensor)) {
    if ((tensor as Partial<TensorInfo>)?.$typeName === 'tensorflow.TensorInfo') return tensor;
    throw invalid(`A signature is made of outputs of the graph, not of ${String(tensor)}`);
  }
  const output = tensor.toOutput();
  return create(TensorInfoSchema, {
    encoding: { case: 'name', value: output.name },
    dtype: dtypeNumber(output.dtype),
    tensorShape: shapeProto(output.shape),
  });
}

export type SignatureTensors = Readonly<Record<string, SignatureTensor>>;

const infosOf = (tensors: SignatureTensors): Record<string, TensorInfo> =>
  Object.fromEntries(Object.entries(tensors).map(([name, tensor]) => [name, buildTensorInfo(tensor)]));

export function buildSignatureDef(options: {
  /** The inputs by name; default: none. */
  readonly inputs?: SignatureTensors;
  /** The outputs by name; default: none. */
  readonly outputs?: SignatureTensors;
  /** The method of TensorFlow Serving; default: `signatureConstants.predictMethodName`. */
  readonly methodName?: string;
}): SignatureDef {
  const { inputs = {}, outputs = {}, methodName = keys.predictMethodName } = options;
  return create(SignatureDefSchema, { inputs: infosOf(inputs), outputs: infosOf(outputs), methodName });
}

/** Serialized `tf.train.Example`s to classes (strings), scores, or both. */
export function classificationSignatureDef(options: {
  readonly examples: OutputLike;
  /** The classes, as strings; default: none. */
  readonly classes?: OutputLike;
  /** The scores of the classes; default: none. */
  readonly scores?: OutputLike;
}): SignatureDef {
  const { examples, classes, scores } = options;
  const def = buildSignatureDef({
    inputs: { [keys.classifyInputs]: examples },
    outputs: {
      ...(classes ? { [keys.classifyOutputClasses]: classes } : {}),
      ...(scores ? { [keys.classifyOutputScores]: scores } : {}),
    },
    methodName: keys.classifyMethodName,
  });
  checkConventions('of classificationSignatureDef', def);
  return def;
}

/** Serialized `tf.train.Example`s to one float32 each. */
export function regressionSignatureDef(options: {
  readonly examples: OutputLike;
  readonly predictions: OutputLike;
}): SignatureDef {
  const def = buildSignatureDef({
    inputs: { [keys.regressInputs]: options.examples },
    outputs: { [keys.regressOutputs]: options.predictions },
    methodName: keys.regressMethodName,
  });
  checkConventions('of regressionSignatureDef', def);
  return def;
}

export function predictSignatureDef(options: {
  readonly inputs: SignatureTensors;
  readonly outputs: SignatureTensors;
}): SignatureDef {
  const def = buildSignatureDef({ ...options, methodName: keys.predictMethodName });
  checkConventions('of predictSignatureDef', def);
  return def;
}

/** Checks what TensorFlow's server requires of each method. `name` is the signature, for errors. */
export function checkConventions(name: string, { inputs, outputs, methodName }: SignatureDef): void {
  const fail = (what: string) => invalid(`The signature ${name} (${methodName || 'no method'}) ${what}`);
  if (methodName === '') throw fail('has no method name');
  if (Object.keys(outputs).length === 0) throw fail('has no outputs');
  const require = (kind: string, infos: Record<string, TensorInfo>, allowed: Record<string, DType>) => {
    for (const [key, info] of Object.entries(infos)) {
      const dtype = allowed[key];
      if (!dtype) throw fail(`has ${kind} '${key}'; it may have ${Object.keys(allowed).join(', ')}`);
      const found = dtypeFromNumber(info.dtype);
      if (found !== dtype) throw fail(`has ${kind} '${key}' (${namesOf(info)[0]}) of ${found}, not ${dtype}`);
    }
  };
  if (methodName === keys.classifyMethodName) {
    if (!inputs[keys.classifyInputs]) throw fail(`needs the input '${keys.classifyInputs}'`);
    require('the input', inputs, { [keys.classifyInputs]: 'string' });
    require('the output', outputs, {
      [keys.classifyOutputClasses]: 'string',
      [keys.classifyOutputScores]: 'float32',
    });
  } else if (methodName === keys.regressMethodName) {
    if (!inputs[keys.regressInputs]) throw fail(`needs the input '${keys.regressInputs}'`);
    require('the input', inputs, { [keys.regressInputs]: 'string' });
    require('the output', outputs, { [keys.regressOutputs]: 'float32' });
  } else if (methodName === keys.predictMethodName && Object.keys(inputs).length === 0) {
    throw fail('has no inputs');
  }
}

/** The tensors of the graph behind an entry of a signature. */
export function namesOf({ encoding }: TensorInfo): string[] {
  switch (encoding.case) {
    case 'name':
      return [encoding.value];
    case 'cooSparse':
      return [
        encoding.value.indicesTensorName,
        encoding.value.valuesTensorName,
        encoding.value.denseShapeTensorName,
      ];
    case 'compositeTensor':
      return encoding.value.components.flatMap(namesOf);
    default:
      return [];
  }
}
