/**
 * The messages between a task that runs a plan and a task that runs its stages. A stage is registered under a number
 * that the caller chooses, and run by that number; messages arrive in order, so a run may follow its registration
 * immediately. Every run gets one reply, also when it was cancelled.
 *
 * | kind     | id         | head                                     | tensors             |
 * |----------|------------|------------------------------------------|---------------------|
 * | register | the stage  | JSON: hash, inputs, outputs, targets…    | the GraphDef, bytes |
 * | run      | the call   | stage, timeout in ms (0: none), what the | the inputs          |
 * |          |            | task keeps for the plan's run            |                     |
 * | cancel   | the call   |                                          |                     |
 * | result   | the call   |                                          | the outputs         |
 * | failure  | the call   | JSON: code, message, hint, op, task      |                     |
 * | forget   | plan's run |                                          |                     |
 * | bulk     | 0          | see bulk-opening.ts; since version 3     |                     |
 *
 * Since version 2 a task keeps tensors for later stages of a run of the plan (partition/keeping.ts): the head of such a
 * call names the run, the inputs that the task has already, those tensors that it shall keep, and the outputs that the
 * caller does not want. `forget` frees what is left of a run that has failed.
 */
import * as v from 'valibot';
import { messageOf, type ShoalCode, ShoalError, TF_CODE_NAMES } from '../../../base/errors/errors.js';
import type { Keeping, Kept, Present } from '../partition/keeping.js';
import type { Stage } from '../partition/plan.js';

export const KIND = { register: 1, run: 2, cancel: 3, result: 4, failure: 5, forget: 6, bulk: 7 } as const;

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

/** What a call does: without `kept` nothing stays on the task. */
export interface RunCall {
  readonly stage: number;
  readonly timeoutMs: number | undefined;
  readonly kept?: { readonly run: number; readonly keeping: Keeping } | undefined;
}

/** The first version in which a task keeps tensors. */
export const KEEPS_SINCE = 2;

/** As words of 32 bits: stage, timeout; and with `kept` the run and three lists, each after its length. */
export function encodeRun({ stage, timeoutMs, kept }: RunCall): Uint8Array {
  const limit = timeoutMs === undefined ? 0 : Math.min(2 ** 31 - 1, Math.max(1, Math.ceil(timeoutMs)));
  const words = [stage, limit];
  if (kept) {
    const { present, keeps, withheld } = kept.keeping;
    words.push(kept.run, present.length, ...present.flatMap(({ at, tensor }) => [at, tensor]));
    words.push(keeps.length, ...keeps.flatMap(({ at, tensor, uses }) => [at, tensor, uses]));
    words.push(withheld.length, ...withheld);
  }
  const head = Buffer.allocUnsafe(4 * words.length);
  for (const [at, word] of words.entries()) head.writeUInt32LE(word, 4 * at);
  return head;
}

export function decodeRun(head: Uint8Array): RunCall {
  const { byteLength } = head;
  if (byteLength % 4 !== 0 || byteLength < 8) throw new Error(`a run has a head of ${byteLength} bytes`);
  const view = new DataView(head.buffer, head.byteOffset, byteLength);
  let at = 0;
  const word = () => {
    if (at === byteLength) throw new Error('the head of a run is truncated');
    at += 4;
    return view.getUint32(at - 4, true);
  };
  const list = <T>(width: number, read: () => T): T[] => {
    const length = word();
    if (length * width > (byteLength - at) / 4) throw new Error('the head of a run is truncated');
    return Array.from({ length }, read);
  };
  const [stage, timeout] = [word(), word()];
  const timeoutMs = timeout || undefined;
  if (at === byteLength) return { stage, timeoutMs };
  const run = word();
  const present = list(2, (): Present => ({ at: word(), tensor: word() }));
  const keeps = list(3, (): Kept => ({ at: word(), tensor: word(), uses: word() }));
  const withheld = list(1, word);
  if (at !== byteLength) throw new Error(`a run has a head of ${byteLength} bytes, not ${at}`);
  return { stage, timeoutMs, kept: { run, keeping: { present, keeps, withheld } } };
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
    return new ShoalError(known, message, { task, hint, op });
  } catch (cause) {
    return new ShoalError('SHOAL_CORRUPT', `${task} sent an invalid failure: ${messageOf(cause)}`, {
      task,
      cause,
    });
  }
}
