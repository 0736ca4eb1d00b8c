/**
 * The messages between a task that runs a plan and a task that runs its stages. A stage is registered under a number
 * that the caller chooses, and run by that number; messages arrive in order, so a run may follow its registration
 * immediately. Every run gets one reply, also when it was cancelled.
 *
 * | kind     | id         | head                                  | tensors             |
 * |----------|------------|---------------------------------------|---------------------|
 * | register | the stage  | JSON: hash, inputs, outputs, targets… | the GraphDef, bytes |
 * | run      | the run    | stage, timeout in ms (0: none)        | the inputs          |
 * | cancel   | the run    |                                       |                     |
 * | result   | the run    |                                       | the outputs         |
 * | failure  | the run    | JSON: code, message, hint, op, task   |                     |
 */
import * as v from 'valibot';
import { messageOf, type ShoalCode, ShoalError, TF_CODE_NAMES } from '../../errors/errors.js';
import type { Stage } from '../partition/plan.js';

export const KIND = { register: 1, run: 2, cancel: 3, result: 4, failure: 5 } as const;

const encoder = new TextEncoder();
const decoder = new TextDecoder();
const Names = v.array(v.string());

const RegisterSchema = v.object({
  hash: v.pipe(v.string(), v.regex(/^[0-9a-f]{64}$/)),
  inputs: Names,
  outputs: Names,
  targets: Names,
  waits: v.boolean(),
});

export function encodeRegister({ hash, spec: { inputs, outputs, targets, waits } }: Stage): Uint8Array {
  return encoder.encode(JSON.stringify({ hash, inputs, outputs, targets, waits }));
}

export function decodeRegister(head: Uint8Array): v.InferOutput<typeof RegisterSchema> {
  return v.parse(RegisterSchema, JSON.parse(decoder.decode(head)));
}

export function encodeRun(stage: number, timeoutMs: number | undefined): Uint8Array {
  const head = Buffer.allocUnsafe(8);
  head.writeUInt32LE(stage, 0);
  head.writeUInt32LE(
    timeoutMs === undefined ? 0 : Math.min(2 ** 31 - 1, Math.max(1, Math.ceil(timeoutMs))),
    4,
  );
  return head;
}

export function decodeRun(head: Uint8Array): { stage: number; timeoutMs: number | undefined } {
  if (head.byteLength !== 8) throw new Error(`a run has a head of 8 bytes, not ${head.byteLength}`);
  const view = new DataView(head.buffer, head.byteOffset, 8);
  return { stage: view.getUint32(0, true), timeoutMs: view.getUint32(4, true) || undefined };
}

const FailureSchema = v.object({
  code: v.string(),
  message: v.string(),
  hint: v.optional(v.string()),
  op: v.optional(v.string()),
});

/** Names and messages of TensorFlow may be long; a head is bounded. */
const MOST_TEXT = 8192;

export function encodeFailure(error: ShoalError): Uint8Array {
  const { code, hint, op } = error;
  const message = error.message.slice(0, MOST_TEXT);
  return encoder.encode(JSON.stringify({ code, message, hint, op }));
}

const TF_CODES: ReadonlySet<string> = new Set(TF_CODE_NAMES.map((name) => `SHOAL_TF_${name}`));
const OWN_CODES: ReadonlySet<string> = new Set<ShoalCode>([
  'SHOAL_INVALID_ARGUMENT',
  'SHOAL_DISPOSED',
  'SHOAL_CORRUPT',
]);

/** The error that a task reported; an unknown code becomes SHOAL_INTERNAL. */
export function decodeFailure(head: Uint8Array, task: string): ShoalError {
  try {
    const { code, message, hint, op } = v.parse(FailureSchema, JSON.parse(decoder.decode(head)));
    const known = TF_CODES.has(code) || OWN_CODES.has(code) ? (code as ShoalCode) : 'SHOAL_INTERNAL';
    return new ShoalError(known, message, { task, ...(hint && { hint }), ...(op && { op }) });
  } catch (cause) {
    return new ShoalError('SHOAL_CORRUPT', `${task} sent an invalid failure: ${messageOf(cause)}`, {
      task,
      cause,
    });
  }
}
