/** Converts TensorFlow's statuses to errors. */
import {
  type ShoalError,
  TensorFlowError,
  TF_CODE_NAMES,
  type TfCodeName,
} from '../../base/errors/errors.js';
import { countHandle } from './handle.js';
import type { Pointer } from './library/c-api.js';
import { C, isLibraryLoaded, library } from './library/library.js';
import { oneDnnHint } from './library/onednn.js';

/** What the caller knows about the call that failed. */
export interface CallContext {
  readonly op?: string;
  readonly hint?: string;
}

// A status is used for one call; a few are pooled.
const KEPT_STATUSES = 64;
const idle: Pointer[] = [];

export function takeStatus(): Pointer {
  countHandle('status', 1);
  return idle.pop() ?? C().TF_NewStatus();
}

export function giveStatus(status: Pointer): void {
  countHandle('status', -1);
  // A status with an error is not reused: a successful call does not necessarily reset it.
  if (idle.length < KEPT_STATUSES && C().TF_GetCode(status) === 0) idle.push(status);
  else C().TF_DeleteStatus(status);
}

/** Calls `f` with a status, and throws if the status is not OK. */
export function checked<T>(f: (status: Pointer) => T, context?: CallContext): T {
  const status = takeStatus();
  try {
    const result = f(status);
    throwStatus(status, context);
    return result;
  } finally {
    giveStatus(status);
  }
}

export function throwStatus(status: Pointer, context?: CallContext): void {
  const error = statusError(status, context);
  if (error) throw error;
}

/** The error of a status; undefined if it is OK. */
export function statusError(status: Pointer, context: CallContext = {}): ShoalError | undefined {
  const code = C().TF_GetCode(status);
  if (code === 0) return undefined;
  return tensorFlowError(code, C().TF_Message(status), context);
}

export function tensorFlowError(code: number, message: string, context: CallContext = {}): TensorFlowError {
  const name = (TF_CODE_NAMES[code] ?? 'UNKNOWN') as TfCodeName;
  const text = describe(name, message.trimEnd());
  const device = /\/job:[\w-]+(?:\/replica:\d+)?\/task:\d+(?:\/device:\w+:\d+)?/.exec(message)?.[0];
  const task = device && /\/job:[\w-]+/.exec(device)?.[0] + (/\/task:\d+/.exec(device)?.[0] ?? '');
  return new TensorFlowError(name, text, {
    op: context.op ?? opIn(text),
    device,
    task,
    hint: context.hint ?? hintFor(name, text),
  });
}

/** Log lines show the first line of a message, which TensorFlow may leave empty, or fill with `===` or a task's name. */
function describe(code: TfCodeName, message: string): string {
  const own = withoutCode(code, message);
  const [, from, reported = own] = /^From (\/job:\S+):(.*)$/s.exec(own) ?? [];
  const rest = withoutRepeats(withoutCode(code, reported));
  // The task that reported the error, which may be about another one.
  const source = from ? ` (reported by ${from.replace(/\/replica:\d+/, '')})` : '';
  if (rest === '' || rest.startsWith('Additional GRPC error')) {
    const what =
      code === 'UNAVAILABLE' ? 'the connection to another task was lost' : 'TensorFlow reported no details';
    return `${what}${source}\n${rest}`.trimEnd();
  }
  return rest.replace(/^.*/, (line) => line + source);
}

/** A task that passes an error on writes its code before it, which the code of the status repeats. */
const withoutCode = (code: TfCodeName, message: string): string =>
  message.replace(new RegExp(`^([=\\s]|${code}:)+`), '');

/** Every task that an error passes through appends it to the message again: only the first is kept. */
function withoutRepeats(message: string): string {
  const [first = '', ...others] = message.replace(/\n=+$/, '').split(/\n(?=[A-Z_]+: From \/job:)/);
  const line = first.split('\n', 1)[0] as string;
  if (line === '' || line.startsWith('Additional GRPC error')) return message;
  return [first, ...others.filter((other) => !other.split('\n').includes(line))]
    .join('\n')
    .replace(/\nAdditional GRPC error information.*\n.*/g, (text) => (text.includes(line) ? '' : text));
}

function opIn(message: string): string | undefined {
  const node = /\{\{node ([^}\s]+)\}\}/.exec(message) ?? /\[\[node ([^\s\]]+)/.exec(message);
  return node?.[1];
}

function hintFor(code: TfCodeName, message: string): string | undefined {
  if (/Could not find variable|Error while reading resource variable|uninitialized/.test(message)) {
    const variable = /(?:Could not find variable|resource variable) ([^\s.]+)/.exec(message)?.[1];
    const which = variable ? `Variable ${variable} has` : 'A variable has';
    return `${which} no value yet: run tf.globalVariablesInitializer(), or restore a checkpoint, first.`;
  }
  if (code === 'UNAVAILABLE') return 'A task is down or unreachable; it may restart on another host.';
  if (code === 'DEADLINE_EXCEEDED')
    return 'A step took longer than its timeoutMs: a task may be frozen or unreachable.';
  return isLibraryLoaded() ? oneDnnHint(message, library().oneDnn) : undefined;
}
