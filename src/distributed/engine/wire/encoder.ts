/** Appends messages to the output of a connection. A message that cannot be sent leaves the output as it was. */
import type { HeldBytes } from '../../../base/bytes/lent-bytes.js';
import { VERSIONS } from '../../../base/bytes/versions.js';
import { invalid } from '../../../base/errors/errors.js';
import type { Pointer } from '../../../tensorflow/native/library/c-api.js';
import { DTYPES } from '../../../tensorflow/tensor/dtype.js';
import { COPY_LIMIT, type Tensor } from '../../../tensorflow/tensor/tensor.js';
import type { WireMessage } from './decoder.js';
import {
  type Descriptor,
  descriptorSize,
  FRAME_HEADER_BYTES,
  frontSize,
  isSendable,
  mayBeBulk,
  padded,
  problemOf,
  type WireLimits,
  writeDescriptor,
  writeHeader,
} from './frame.js';
import { heldArray, type OutputQueue } from './output-queue.js';
import { encodeStrings } from './strings.js';

/** The elements of a tensor in JavaScript memory, to be copied, or memory to be held until it is written. */
interface Payload extends Descriptor {
  readonly words: NodeJS.TypedArray | undefined;
  readonly held: HeldBytes | undefined;
}

/** Takes the bytes of tensors of at least `minBytes`. */
export interface BulkOutput {
  readonly minBytes: number;
  send(held: HeldBytes, address: Pointer, byteLength: number): void;
}

/** `version`: of the stage protocol, that of the connection. `bulk`: default: all bytes are in the message. */
export function encode(
  { kind, id, head, tensors }: WireMessage,
  output: OutputQueue,
  limits: WireLimits,
  version: number = VERSIONS.stages.newest,
  bulk?: BulkOutput,
): void {
  if (kind >>> 0 !== kind || kind > 255) throw invalid(`The kind of a message is a byte; got ${kind}`);
  if (id >>> 0 !== id) throw invalid(`The id of a message is an unsigned 32-bit integer; got ${id}`);
  const payloads: Payload[] = [];
  try {
    let descriptorBytes = 0;
    let bodyBytes = 0;
    let bulkBytes = 0;
    for (const tensor of tensors) {
      const payload = payloadOf(tensor, limits, bulk);
      payloads.push(payload);
      descriptorBytes += descriptorSize(payload.shape.length);
      if (payload.isBulk) bulkBytes += payload.byteLength;
      else bodyBytes += padded(payload.byteLength);
    }
    const tensorCount = tensors.length;
    const header = { kind, id, headBytes: head.length, tensorCount, descriptorBytes, bodyBytes };
    const problem = problemOf(header, limits, bulkBytes);
    if (problem !== undefined) throw invalid(`This message cannot be sent: ${problem}`);
    const { block, at } = output.reserve(frontSize(header));
    writeHeader(block.view, at, header, version);
    let next = at + FRAME_HEADER_BYTES + padded(head.length);
    if (head.length > 0) {
      block.bytes.fill(0, next - 8, next);
      block.bytes.set(head, at + FRAME_HEADER_BYTES);
    }
    for (const payload of payloads) {
      writeDescriptor(block.view, next, payload);
      next += descriptorSize(payload.shape.length);
    }
  } catch (error) {
    for (const { held } of payloads) held?.letGo();
    throw error;
  }
  for (const { dtype, byteLength, words, held, isBulk } of payloads) {
    if (isBulk) bulk?.send(held as HeldBytes, held?.address as Pointer, byteLength);
    else if (held !== undefined) output.append(held, byteLength);
    else if (words !== undefined && byteLength > 0) {
      const { block, at } = output.reserve(byteLength);
      block.setWords(DTYPES[dtype].array ?? Uint8Array, words, at);
    }
  }
}

function payloadOf(tensor: Tensor, { maxRank }: WireLimits, bulk: BulkOutput | undefined): Payload {
  const { dtype, shape } = tensor;
  if (!isSendable(dtype)) {
    throw invalid(`A ${dtype} tensor cannot be sent to another task`, {
      hint: 'It refers to an object of this process. Send what the object contains.',
    });
  }
  if (shape.length > maxRank) throw invalid(`${tensor} has a rank above ${maxRank}`);
  if (dtype === 'string') {
    const bytes = encodeStrings(tensor);
    const { byteLength } = bytes;
    const isSmall = byteLength <= COPY_LIMIT;
    return {
      dtype,
      shape,
      byteLength,
      words: isSmall ? bytes : undefined,
      held: isSmall ? undefined : heldArray(bytes),
      isBulk: false,
    };
  }
  const { byteLength } = tensor;
  if (byteLength > COPY_LIMIT) {
    const held = tensor.holdBytes();
    const isBulk =
      bulk !== undefined &&
      byteLength >= bulk.minBytes &&
      held.address !== undefined &&
      mayBeBulk(dtype, byteLength);
    return { dtype, shape, byteLength, words: undefined, held, isBulk };
  }
  const words = tensor.data as NodeJS.TypedArray;
  return { dtype, shape, byteLength, words, held: undefined, isBulk: false };
}
