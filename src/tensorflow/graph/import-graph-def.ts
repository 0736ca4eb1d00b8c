/** Imports GraphDefs into a graph. */
import { freeBuffer, newBuffer, unpackOutputs } from '../native/buffer.js';
import { countHandle } from '../native/handle.js';
import type { Pointer } from '../native/library/c-api.js';
import { C, library } from '../native/library/library.js';
import { checked } from '../native/status.js';
import type { Operation, Output, OwningGraph } from './operation.js';

export interface ImportOptions {
  /** Prepended to every imported name; default: none. */
  readonly prefix?: string;
  /** Tensors of the GraphDef (`x:0`) to replace by outputs of this graph; default: none. */
  readonly inputMap?: Readonly<Record<string, Output>>;
  /** Tensors of the GraphDef (`y:0`) to return; default: none. */
  readonly returnOutputs?: readonly string[];
  /** Ops of the GraphDef to return, by name; default: none. */
  readonly returnOperations?: readonly string[];
  /** Control inputs of every imported op without inputs; default: none. */
  readonly controlDependencies?: readonly Operation[];
  /** The device of imported ops without a device; default: none. */
  readonly defaultDevice?: string;
  /** Renames imported ops whose names are taken, instead of failing; default: false. */
  readonly uniquifyNames?: boolean;
}

export interface ImportResult {
  readonly outputs: Output[];
  readonly operations: Operation[];
}

const splitName = (name: string): [string, number] => {
  const at = name.lastIndexOf(':');
  return at < 0 ? [name, 0] : [name.slice(0, at), Number(name.slice(at + 1))];
};

export function importGraphDef(graph: OwningGraph, bytes: Uint8Array, options: ImportOptions): ImportResult {
  const api = C();
  const native = api.TF_NewImportGraphDefOptions();
  countHandle('options', 1);
  const buffer = newBuffer(bytes);
  try {
    if (options.prefix) api.TF_ImportGraphDefOptionsSetPrefix(native, options.prefix.replace(/\/$/, ''));
    if (options.defaultDevice) api.TF_ImportGraphDefOptionsSetDefaultDevice(native, options.defaultDevice);
    if (options.uniquifyNames) api.TF_ImportGraphDefOptionsSetUniquifyNames(native, 1);
    for (const [name, output] of Object.entries(options.inputMap ?? {})) {
      const [op, index] = splitName(name);
      api.TF_ImportGraphDefOptionsAddInputMapping(native, op, index, graph.capture(output));
    }
    for (const op of options.controlDependencies ?? []) {
      api.TF_ImportGraphDefOptionsAddControlDependency(native, op.pointer);
    }
    for (const name of options.returnOutputs ?? []) {
      const [op, index] = splitName(name);
      api.TF_ImportGraphDefOptionsAddReturnOutput(native, op, index);
    }
    for (const name of options.returnOperations ?? [])
      api.TF_ImportGraphDefOptionsAddReturnOperation(native, name);
    const results = checked((status) =>
      api.TF_GraphImportGraphDefWithResults(graph.pointer, buffer, native, status),
    );
    try {
      return { outputs: returnedOutputs(graph, results), operations: returnedOperations(graph, results) };
    } finally {
      api.TF_DeleteImportGraphDefResults(results);
    }
  } finally {
    freeBuffer(buffer);
    api.TF_DeleteImportGraphDefOptions(native);
    countHandle('options', -1);
  }
}

/** Reads a (count, array) pair of the C API and copies `words` 64-bit words per item. */
function readArray(read: (count: Int32Array, array: BigUint64Array) => void, words: number): BigUint64Array {
  const count = new Int32Array(1);
  const array = new BigUint64Array(1);
  read(count, array);
  const items = new BigUint64Array((count[0] as number) * words);
  if (items.length > 0) library().libc.memcpy(items, array[0] as bigint, items.byteLength);
  return items;
}

function returnedOutputs(graph: OwningGraph, results: Pointer): Output[] {
  const packed = readArray(
    (count, array) => C().TF_ImportGraphDefResultsReturnOutputs(results, count, array),
    2,
  );
  return unpackOutputs(packed).map(({ oper, index }) => graph.operationAt(oper).output(index));
}

function returnedOperations(graph: OwningGraph, results: Pointer): Operation[] {
  const packed = readArray(
    (count, array) => C().TF_ImportGraphDefResultsReturnOperations(results, count, array),
    1,
  );
  return Array.from(packed, (pointer) => graph.operationAt(pointer));
}
