/** `shoal predict`: calls a signature with inputs from JSON and prints its outputs. */
import { readFile } from 'node:fs/promises';
import { isShoalError, messageOf } from '../../../../base/errors/errors.js';
import { formatShape } from '../../../../tensorflow/tensor/shape.js';
import { Tensor } from '../../../../tensorflow/tensor/tensor.js';
import { loadSavedModel } from '../../../../training/saved-model/loading/loader.js';
import { RaggedTensorValue } from '../../../../training/saved-model/signatures/ragged.js';
import type {
  InputValue,
  OutputValue,
} from '../../../../training/saved-model/signatures/signature-values.js';
import { toJson } from '../../checkpoint/tensor-values.js';
import type { ShoalContext } from '../../context.js';
import { UsageError } from '../../failure.js';
import type { PredictFlags } from './command.js';

export async function runPredict(this: ShoalContext, flags: PredictFlags, directory: string): Promise<void> {
  const inputs = parseInputs(await readInput(flags.input), flags.input);
  await using model = await loadSavedModel(directory, { tags: flags.tag });
  const outputs = await asUsage(async () => model.signatures[flags.signature]!(inputs));
  const plain = Object.fromEntries(Object.entries(outputs).map(([name, value]) => [name, plainOf(value)]));
  const lines = Object.entries(outputs).map(
    ([name, value]) => `${name}${describe(value)}: ${JSON.stringify(plain[name])}`,
  );
  this.process.stdout.write(
    `${flags.json ? JSON.stringify({ outputs: plain }, null, 2) : lines.join('\n')}\n`,
  );
}

/** Turns unknown inputs and unknown signature names into usage errors. */
async function asUsage<T>(call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    if (isShoalError(error, 'SHOAL_INVALID_ARGUMENT') || isShoalError(error, 'SHOAL_NOT_FOUND'))
      throw new UsageError(error.code, error.message, { cause: error });
    throw error;
  }
}

async function readInput(input: string): Promise<string> {
  if (/^\s*[{[]/.test(input)) return input;
  try {
    if (input !== '-') return await readFile(input, 'utf8');
    const chunks: Buffer[] = [];
    for await (const chunk of process.stdin) chunks.push(chunk as Buffer);
    return Buffer.concat(chunks).toString('utf8');
  } catch (cause) {
    throw new UsageError('SHOAL_NOT_FOUND', `cannot read the input ${input}: ${messageOf(cause)}`, {
      cause,
      hint: 'pass --input as JSON that begins with {, as a file, or as - for standard input',
    });
  }
}

function parseInputs(text: string, from: string): Record<string, InputValue> {
  let value: unknown;
  const source = /^\s*[{[]/.test(from) ? '--input' : `the input ${from}`;
  try {
    value = JSON.parse(text, decodeBytes);
  } catch (cause) {
    throw new UsageError('SHOAL_INVALID_ARGUMENT', `${source} is not JSON: ${messageOf(cause)}`, { cause });
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new UsageError('SHOAL_INVALID_ARGUMENT', `${source} must be a JSON object of inputs by name`, {
      hint: 'for example {"images": [[0, 1]]}; `shoal saved-model show` lists the names',
    });
  }
  return value as Record<string, InputValue>;
}

/** Decodes `{"b64": …}`, TensorFlow Serving's JSON form of bytes. */
function decodeBytes(_key: string, value: unknown): unknown {
  const isBytes =
    typeof value === 'object' && value !== null && Object.keys(value).length === 1 && 'b64' in value;
  return isBytes ? new Uint8Array(Buffer.from(String((value as { b64: unknown }).b64), 'base64')) : value;
}

function plainOf(value: OutputValue): unknown {
  if (value instanceof Tensor || value instanceof RaggedTensorValue) return toJson(value.toArray());
  if (Array.isArray(value)) return value.map(plainOf);
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, plainOf(part as Tensor)]));
}

function describe(value: OutputValue): string {
  return value instanceof Tensor ? ` ${value.dtype} ${formatShape(value.shape)}` : '';
}
