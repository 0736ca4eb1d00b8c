/** Appends messages to the output of a connection. A message that cannot be sent leaves the output as it was. */
import type { HeldBytes } from '../../bytes/lent-bytes.js';
import { VERSIONS } from '../../bytes/versions.js';
import { invalid } from '../../errors/errors.js';
import { DTYPES } from '../../tensor/dtype.js';
import { COPY_LIMIT, type Tensor } from '../../tensor/tensor.js';
import type { Message } from './decoder.js';
import {
  type Descriptor,
  descriptorSize,
  frontSize,
  HEADER_BYTES,
  isSendable,
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

/** `version`: of the stage protocol, that of the connection. */
export function encode(
  { kind, id, head, tensors }: Message,
  output: OutputQueue,
  limits: WireLimits,
  version: number = VERSIONS.stages.newest,
): void {
  if (kind >>> 0 !== kind || kind > 255) throw invalid(`The kind of a message is a byte; got ${kind}`);
  if (id >>> 0 !== id) throw invalid(`The id of a message is an unsigned 32-bit integer; got ${id}`);
  const payloads: Payload[] = [];
  try {
    let descriptorBytes = 0;
    let bodyBytes = 0;
    for (const tensor of tensors) {
      const payload = payloadOf(tensor, limits);
      payloads.push(payload);
      descriptorBytes += descriptorSize(payload.shape.length);
      bodyBytes += padded(payload.byteLength);
    }
    const tensorCount = tensors.length;
    const header = { kind, id, headBytes: head.length, tensorCount, descriptorBytes, bodyBytes };
    const problem = problemOf(header, limits);
    if (problem !== undefined) throw invalid(`This message cannot be sent: ${problem}`);
    const { block, at } = output.reserve(frontSize(header));
    writeHeader(block.view, at, header, version);
    let next = at + HEADER_BYTES + padded(head.length);
    if (head.length > 0) {
      block.bytes.fill(0, next - 8, next);
      block.bytes.set(head, at + HEADER_BYTES);
    }
    for (const payload of payloads) {
      writeDescriptor(block.view, next, payload);
      next += descriptorSize(payload.shape.length);
    }
  } catch (error) {
    for (const { held } of payloads) held?.letGo();
    throw error;
  }
  for (const { dtype, byteLength, words, held } of payloads) {
    if (held !== undefined) output.append(held, byteLength);
    else if (words !== undefined && byteLength > 0) {
      const { block, at } = output.reserve(byteLength);
      block.setWords(DTYPES[dtype].array ?? Uint8Array, words, at);
    }
  }
}

function payloadOf(tensor: Tensor, { maxRank }: WireLimits): Payload {
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
    };
  }
  const { byteLength } = tensor;
  if (byteLength > COPY_LIMIT)
    return { dtype, shape, byteLength, words: undefined, held: tensor.holdBytes() };
  return { dtype, shape, byteLength, words: tensor.data as NodeJS.TypedArray, held: undefined };
}
