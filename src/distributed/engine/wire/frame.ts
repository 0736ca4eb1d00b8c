/**
 * The layout of a message. Integers are little-endian, as are the elements of tensors. The head, each descriptor and the
 * bytes of each tensor are padded to a multiple of 8 bytes, so that elements are aligned.
 *
 *   header        at 0: u8 0x53, u8 version of the stage protocol, u8 kind, u8 0, u32 id
 *                 at 8: u32 length of the head, u32 number of tensors, u32 length of all descriptors, u32 0
 *                 at 24: u64 length of the body
 *   head          bytes of the caller
 *   descriptors   for each tensor: u8 dtype (TF_DataType), u8 rank, u8 1 if its bytes take the bulk channel (since
 *                 version 3), five zero bytes, u64 byte length, u64 for each axis
 *   body          the bytes of each other tensor; for strings a u32 length for each element, then the bytes of all elements
 *
 * All sizes precede the body, so that a message is checked completely before memory is allocated for its tensors.
 */
import { ShoalError } from '../../../base/errors/errors.js';
import { DTYPES, type DType } from '../../../tensorflow/tensor/dtype.js';
import { hasInvalidWords } from '../../../tensorflow/tensor/literal.js';
import { formatShape, type Shape } from '../../../tensorflow/tensor/shape.js';
import { COPY_LIMIT } from '../../../tensorflow/tensor/tensor.js';

export interface WireLimits {
  readonly maxHeadBytes: number;
  readonly maxTensors: number;
  readonly maxRank: number;
  /** The size of a message with everything in it. */
  readonly maxMessageBytes: number;
  /**
   * Bytes of output in the queue above which no more input is read, so that a peer that sends but does not read cannot
   * make this side queue without bound. At most one side of a connection may have such a limit, the one that answers:
   * if both wait for the other one to read, neither continues. The side that makes the calls sets Infinity.
   */
  readonly maxQueuedBytes: number;
  /** Bytes of messages that wait for tensors of an earlier one, above which no more input is read meanwhile. */
  readonly maxWaitingBytes: number;
  /** How long pending output may make no progress. */
  readonly stallMs: number;
}

export const WIRE_LIMITS: WireLimits = {
  maxHeadBytes: 4 << 20,
  maxTensors: 65_536,
  // TensorFlow's own limit.
  maxRank: 254,
  maxMessageBytes: 2 ** 34,
  maxQueuedBytes: 64 << 20,
  maxWaitingBytes: 64 << 20,
  stallMs: 60_000,
};

const MAGIC = 0x53;
export const FRAME_HEADER_BYTES = 32;
const DESCRIPTOR_BYTES = 16;
/** The size of the largest element: products of a shape stay exact numbers when multiplied by it. */
const MAX_ELEMENT_BYTES = 16;
const TWO_32 = 2 ** 32;

/** In the first word of a descriptor. */
const BULK_FLAG = 1 << 16;

export const padded = (bytes: number): number => Math.ceil(bytes / 8) * 8;

export interface Header {
  readonly kind: number;
  readonly id: number;
  readonly headBytes: number;
  readonly tensorCount: number;
  readonly descriptorBytes: number;
  readonly bodyBytes: number;
}

/** The type, shape and size of a tensor in a message. */
export interface Descriptor {
  readonly dtype: DType;
  readonly shape: Shape;
  readonly byteLength: number;
  /** Whether the bytes are in the bulk channel instead of the body. */
  readonly isBulk: boolean;
}

/** The first version that has a bulk channel. */
export const BULK_SINCE = 3;

/** Whether the bytes of such a tensor may take the bulk channel: nobody looks at them on the way. */
export const mayBeBulk = (dtype: DType, byteLength: number): boolean =>
  byteLength > COPY_LIMIT &&
  DTYPES[dtype].array !== undefined &&
  !hasInvalidWords(dtype) &&
  dtype !== 'float4_e2m1fn';

export const descriptorSize = (rank: number): number => DESCRIPTOR_BYTES + 8 * rank;

/** The size of everything before the body. */
export const frontSize = ({ headBytes, descriptorBytes }: Header): number =>
  FRAME_HEADER_BYTES + padded(headBytes) + descriptorBytes;

export function corrupt(what: string): ShoalError {
  return new ShoalError('SHOAL_CORRUPT', what);
}

/** Whether tensors of this type can be sent: references into a process have no meaning in another one. */
export const isSendable = (dtype: DType): boolean => dtype === 'string' || DTYPES[dtype].array !== undefined;

const BY_NUMBER: readonly (DType | undefined)[] = (() => {
  const table: (DType | undefined)[] = [];
  for (const dtype of Object.keys(DTYPES) as DType[]) {
    if (isSendable(dtype)) table[DTYPES[dtype].number] = dtype;
  }
  return table;
})();

function setUint64(view: DataView, at: number, value: number): void {
  view.setUint32(at, value % TWO_32, true);
  view.setUint32(at + 4, value / TWO_32, true);
}

function getUint64(view: DataView, at: number): number {
  return view.getUint32(at, true) + view.getUint32(at + 4, true) * TWO_32;
}

export function writeHeader(view: DataView, at: number, header: Header, version: number): void {
  view.setUint32(at, MAGIC | (version << 8) | (header.kind << 16), true);
  view.setUint32(at + 4, header.id, true);
  view.setUint32(at + 8, header.headBytes, true);
  view.setUint32(at + 12, header.tensorCount, true);
  view.setUint32(at + 16, header.descriptorBytes, true);
  view.setUint32(at + 20, 0, true);
  setUint64(view, at + 24, header.bodyBytes);
}

/** Throws SHOAL_CORRUPT if the header is invalid or beyond the limits. */
export function readHeader(view: DataView, at: number, limits: WireLimits, version: number): Header {
  if (view.getUint8(at) !== MAGIC || view.getUint8(at + 3) !== 0 || view.getUint32(at + 20, true) !== 0) {
    throw corrupt('the header of a message is invalid');
  }
  const found = view.getUint8(at + 1);
  if (found !== version)
    throw corrupt(`it has version ${found} of the format, on a connection of version ${version}`);
  const header: Header = {
    kind: view.getUint8(at + 2),
    id: view.getUint32(at + 4, true),
    headBytes: view.getUint32(at + 8, true),
    tensorCount: view.getUint32(at + 12, true),
    descriptorBytes: view.getUint32(at + 16, true),
    bodyBytes: getUint64(view, at + 24),
  };
  const problem = problemOf(header, limits);
  if (problem !== undefined) throw corrupt(problem);
  const { tensorCount, descriptorBytes } = header;
  if (
    descriptorBytes % 8 !== 0 ||
    descriptorBytes < tensorCount * DESCRIPTOR_BYTES ||
    descriptorBytes > tensorCount * descriptorSize(limits.maxRank)
  ) {
    throw corrupt(`${tensorCount} tensors do not have ${descriptorBytes} bytes of descriptors`);
  }
  return header;
}

/** How a message exceeds the limits; undefined if it does not. `bulkBytes` are those outside of the body. */
export function problemOf(header: Header, limits: WireLimits, bulkBytes = 0): string | undefined {
  const { headBytes, tensorCount, bodyBytes } = header;
  const { maxHeadBytes, maxTensors, maxMessageBytes } = limits;
  if (headBytes > maxHeadBytes) return `a head of ${headBytes} bytes exceeds the limit of ${maxHeadBytes}`;
  if (tensorCount > maxTensors) return `${tensorCount} tensors exceed the limit of ${maxTensors}`;
  const total = frontSize(header) + bodyBytes + bulkBytes;
  if (total > maxMessageBytes)
    return `a message of ${total} bytes exceeds the limit of ${maxMessageBytes} bytes`;
  return undefined;
}

export function writeDescriptor(
  view: DataView,
  at: number,
  { dtype, shape, byteLength, isBulk }: Descriptor,
): void {
  view.setUint32(at, DTYPES[dtype].number | (shape.length << 8) | (isBulk ? BULK_FLAG : 0), true);
  view.setUint32(at + 4, 0, true);
  setUint64(view, at + 8, byteLength);
  let next = at + DESCRIPTOR_BYTES;
  for (const dim of shape) {
    setUint64(view, next, dim);
    next += 8;
  }
}

/** Reads the descriptors of a message; throws SHOAL_CORRUPT if they are invalid or do not fill the body. */
export function readDescriptors(
  view: DataView,
  at: number,
  header: Header,
  limits: WireLimits,
  version: number,
): Descriptor[] {
  const { maxRank } = limits;
  const end = at + header.descriptorBytes;
  const descriptors: Descriptor[] = [];
  let bodyBytes = 0;
  let bulkBytes = 0;
  while (descriptors.length < header.tensorCount) {
    if (end - at < DESCRIPTOR_BYTES) throw corrupt('the descriptors of the tensors are truncated');
    const rank = view.getUint8(at + 1);
    if (rank > maxRank) throw corrupt(`rank ${rank} of a tensor exceeds the limit of ${maxRank}`);
    const next = at + descriptorSize(rank);
    if (next > end) throw corrupt('the descriptors of the tensors are truncated');
    const descriptor = readDescriptor(view, at, rank, version);
    descriptors.push(descriptor);
    if (descriptor.isBulk) bulkBytes += descriptor.byteLength;
    else bodyBytes += padded(descriptor.byteLength);
    at = next;
  }
  if (at !== end) throw corrupt('there are bytes after the descriptors of the tensors');
  if (bodyBytes !== header.bodyBytes) {
    throw corrupt(`tensors of ${bodyBytes} bytes do not fill a body of ${header.bodyBytes} bytes`);
  }
  const problem = problemOf(header, limits, bulkBytes);
  if (problem !== undefined) throw corrupt(problem);
  return descriptors;
}

function readDescriptor(view: DataView, at: number, rank: number, version: number): Descriptor {
  const dtype = BY_NUMBER[view.getUint8(at)];
  const flags = view.getUint16(at + 2, true);
  if (dtype === undefined || flags > (version < BULK_SINCE ? 0 : 1) || view.getUint32(at + 4, true) !== 0) {
    throw corrupt(`a tensor has the unknown data type ${view.getUint8(at)}`);
  }
  const byteLength = getUint64(view, at + 8);
  const isBulk = flags === 1;
  if (isBulk && !mayBeBulk(dtype, byteLength)) {
    throw corrupt(`${byteLength} bytes of ${dtype} cannot take the bulk channel`);
  }
  const shape: number[] = [];
  let size = 1;
  // TensorFlow multiplies the sizes of a shape without regard to zeros, and ends the process on an overflow.
  let product = 1;
  for (let axis = 0; axis < rank; axis++) {
    const dim = getUint64(view, at + DESCRIPTOR_BYTES + 8 * axis);
    shape.push(dim);
    size *= dim;
    product *= Math.max(dim, 1);
  }
  if (product > Number.MAX_SAFE_INTEGER / MAX_ELEMENT_BYTES) {
    throw corrupt(`shape ${formatShape(shape)} is too large`);
  }
  const isConsistent =
    dtype === 'string'
      ? byteLength >= 4 * size && (size > 0 || byteLength === 0)
      : byteLength === size * DTYPES[dtype].size;
  if (!isConsistent) {
    throw corrupt(`a ${dtype} tensor of shape ${formatShape(shape)} cannot have ${byteLength} bytes`);
  }
  return { dtype, shape, byteLength, isBulk };
}
