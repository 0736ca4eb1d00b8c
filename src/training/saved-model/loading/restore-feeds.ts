/**
 * Which tensors a model's restore op reads from its variables, and where their bytes are. TensorFlow restores a
 * variable by a RestoreV2 op, which reads the file, and ops that assign its outputs. With values fed for all outputs of
 * a RestoreV2 op, that op does not run, and the assignments work as usual.
 */
import { ByteReader } from '../../../base/bytes/reader.js';
import type { DataType, NodeDef } from '../../../base/proto/generated/graph_pb.js';
import type { MetaGraphDef } from '../../../base/proto/generated/model_pb.js';
import type { BundleIndex, BundlePiece } from '../../../tensorflow/formats/tensor-bundle/bundle-index.js';
import { elementBytes } from '../../../tensorflow/formats/tensor-bundle/dtypes.js';
import { boxOf, elementCount, formatShapeAndSlice } from '../../../tensorflow/formats/tensor-bundle/slice.js';
import { type DType, dtypeFromNumber } from '../../../tensorflow/tensor/dtype.js';
import type { Shape } from '../../../tensorflow/tensor/shape.js';
import { edgeOf, nodesOf, reach } from '../graph/prune-graph.js';

/** An output of a RestoreV2 op whose value is one contiguous piece of a data file. */
export interface RestoredPiece {
  /** The name of the output: `save/RestoreV2:0`. */
  readonly output: string;
  readonly dtype: DType;
  readonly shape: Shape;
  readonly piece: BundlePiece;
}

/**
 * The outputs that can be fed; none for reference variables. An op is left out if one of its outputs is not a piece of
 * fixed size, or if it is inside a function, as in models of TensorFlow 2: TensorFlow then runs it.
 */
export function restoredPieces({ graphDef, saverDef }: MetaGraphDef, index: BundleIndex): RestoredPiece[] {
  if (!graphDef || !saverDef) return [];
  const nodes = nodesOf(graphDef);
  const restore = [...reach(nodes, [saverDef.restoreOpName])].flatMap((name) => nodes.get(name) ?? []);
  // A reference variable copies a value that is fed, but takes over one that RestoreV2 returns.
  if (restore.some(({ op }) => op === 'Assign')) return [];
  // An op may restore from another file, such as a checkpoint that the model starts from.
  const filename = edgeOf(saverDef.filenameTensorName).node;
  const isRestore = ({ op, input }: NodeDef) =>
    op === 'RestoreV2' && edgeOf(input[0] ?? '').node === filename;
  return restore.flatMap((node) => (isRestore(node) ? (piecesOf(node, nodes, index) ?? []) : []));
}

function piecesOf(
  node: NodeDef,
  nodes: ReadonlyMap<string, NodeDef>,
  index: BundleIndex,
): RestoredPiece[] | undefined {
  const dtypes = node.attr.dtypes?.value.case === 'list' ? node.attr.dtypes.value.value.type : [];
  const [keys, slices] = node.input
    .slice(1, 3)
    .map((input) => constantStrings(nodes.get(edgeOf(input).node), dtypes.length));
  if (!keys || !slices) return undefined;
  const found = keys.map((key, i) => findPiece(index, key, slices[i]!, dtypes[i]!, `${node.name}:${i}`));
  return found.every((piece) => piece !== undefined) ? found : undefined;
}

function findPiece(
  index: BundleIndex,
  key: string,
  slice: string,
  dtype: DataType,
  output: string,
): RestoredPiece | undefined {
  const tensor = index.tensors.get(key);
  const each = elementBytes(dtype);
  if (tensor?.dtype !== dtype || each === undefined) return undefined;
  const piece = tensor.pieces.find(
    (one) => (one.slice ? formatShapeAndSlice(tensor.shape, one.slice) : '') === slice,
  );
  if (!piece) return undefined;
  const shape = boxOf(tensor.shape, piece.slice).lengths;
  if (piece.size !== elementCount(shape) * each) return undefined;
  return { output, dtype: dtypeFromNumber(dtype), shape, piece };
}

/** The elements of a constant vector of strings. */
function constantStrings(node: NodeDef | undefined, count: number): string[] | undefined {
  const value = node?.op === 'Const' ? node.attr.value?.value : undefined;
  if (value?.case !== 'tensor') return undefined;
  const { stringVal, tensorContent, tensorShape } = value.value;
  if (tensorShape?.dim.length !== 1 || Number(tensorShape.dim[0]!.size) !== count) return undefined;
  if (tensorContent.length > 0) return packedStrings(tensorContent, count, node!.name);
  // A constant may omit elements that repeat its last one.
  const last = stringVal.at(-1) ?? new Uint8Array();
  return Array.from({ length: count }, (_, i) => Buffer.from(stringVal[i] ?? last).toString());
}

/** Strings as the C API stores them in a constant: the length of each, then the bytes of all. */
function packedStrings(bytes: Uint8Array, count: number, source: string): string[] {
  const reader = new ByteReader(bytes, source);
  const lengths = Array.from({ length: count }, () => reader.varint('the length of a string'));
  return lengths.map((length) => Buffer.from(reader.take(length, 'a string')).toString());
}
