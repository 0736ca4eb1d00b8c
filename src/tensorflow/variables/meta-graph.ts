/**
 * MetaGraphDefs: a graph with its collections, as in TensorFlow's `.meta` files. Variables, ops, tensors, strings and
 * numbers in collections are restored.
 */

import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { invalid } from '../../base/errors/errors.js';
import { type OrNull, withoutNull } from '../../base/errors/null-options.js';
import { type OpDef, OpListSchema, VariableDefSchema } from '../../base/proto/generated/graph_pb.js';
import {
  type CollectionDef,
  CollectionDefSchema,
  type MetaGraphDef,
  MetaGraphDefSchema,
} from '../../base/proto/generated/model_pb.js';
import { currentGraph, type Graph } from '../graph/graph.js';
import type { ImportOptions } from '../graph/import-graph-def.js';
import { Operation, Output } from '../graph/operation.js';
import { C } from '../native/library/library.js';
import { GraphKeys } from './collections.js';
import { Variable } from './variable.js';

export interface ExportMetaGraphOptions {
  /** The graph to export; default: the current graph. */
  readonly graph?: Graph;
  /** The tags of the graph; default: none. */
  readonly tags?: readonly string[];
  /** The collections to write. Default: all. */
  readonly collections?: readonly string[];
  /** Removes devices, so that the graph can be placed anywhere; default: false. */
  readonly clearDevices?: boolean;
  /** The ops that save and restore; default: none. */
  readonly saverDef?: MessageInitShape<typeof MetaGraphDefSchema>['saverDef'];
  /** The signatures by name; default: none. */
  readonly signatureDef?: MessageInitShape<typeof MetaGraphDefSchema>['signatureDef'];
}

export function exportMetaGraph(given: OrNull<ExportMetaGraphOptions> = {}): MetaGraphDef {
  const options = withoutNull<ExportMetaGraphOptions>(given);
  const graph = options.graph ?? currentGraph();
  const graphDef = graph.toGraphDef();
  if (options.clearDevices) for (const node of graphDef.node) node.device = '';
  const types = [...new Set(graphDef.node.map((node) => node.op))].sort();
  const isFunction = new Set(graphDef.library?.function.map((fn) => fn.signature?.name));
  const ops: OpDef[] = types.filter((type) => !isFunction.has(type)).map((type) => graph.opDef(type));
  const collectionDef: Record<string, CollectionDef> = {};
  for (const name of options.collections ?? graph.collectionNames) {
    const encoded = encodeCollection(graph.getCollection(name));
    if (encoded) collectionDef[name] = encoded;
  }
  return create(MetaGraphDefSchema, {
    metaInfoDef: {
      strippedOpList: create(OpListSchema, { op: ops }),
      tags: [...(options.tags ?? [])],
      tensorflowVersion: C().TF_Version(),
      strippedDefaultAttrs: false,
    },
    graphDef,
    collectionDef,
    saverDef: options.saverDef,
    signatureDef: options.signatureDef,
  });
}

export const metaGraphBytes = (meta: MetaGraphDef): Uint8Array => toBinary(MetaGraphDefSchema, meta);

/** A cache of serialized MetaGraphDefs, rebuilt only when the graph or one of its collections changed. */
export class MetaGraphs {
  readonly #made = new WeakMap<Graph, { readonly of: readonly unknown[]; readonly bytes: Uint8Array }>();

  bytes(graph: Graph): Uint8Array {
    const collections = graph.collectionNames.flatMap((name) => [name, ...graph.getCollection(name)]);
    const [def, ...before] = this.#made.get(graph)?.of ?? [];
    const now = graph.toGraphDefBytes();
    const isSame =
      def instanceof Uint8Array &&
      Buffer.compare(def, now) === 0 &&
      before.length === collections.length &&
      before.every((item, i) => item === collections[i]);
    if (isSame) return this.#made.get(graph)!.bytes;
    const bytes = metaGraphBytes(exportMetaGraph({ graph }));
    this.#made.set(graph, { of: [now, ...collections], bytes });
    return bytes;
  }
}

interface CollectionItem {
  toCollectionBytes(): Uint8Array;
}

const hasBytes = (item: unknown): item is CollectionItem =>
  typeof item === 'object' &&
  item !== null &&
  typeof (item as Partial<CollectionItem>).toCollectionBytes === 'function';

/** Items of one kind become a list of that kind; kinds that TensorFlow does not support are omitted. */
function encodeCollection(items: readonly unknown[]): CollectionDef | undefined {
  if (items.length === 0) return undefined;
  const list = <T>(convert: (item: unknown) => T | undefined): T[] | undefined => {
    const converted = items.map(convert);
    return converted.some((item) => item === undefined) ? undefined : (converted as T[]);
  };
  const nodes = list((item) => (item instanceof Output || item instanceof Operation ? item.name : undefined));
  if (nodes) return create(CollectionDefSchema, { kind: { case: 'nodeList', value: { value: nodes } } });
  const bytes = list((item) => {
    if (hasBytes(item)) return item.toCollectionBytes();
    return typeof item === 'string' ? new TextEncoder().encode(item) : undefined;
  });
  if (bytes) return create(CollectionDefSchema, { kind: { case: 'bytesList', value: { value: bytes } } });
  const ints = list((item) =>
    typeof item === 'bigint' || Number.isSafeInteger(item) ? BigInt(item as number) : undefined,
  );
  if (ints) return create(CollectionDefSchema, { kind: { case: 'int64List', value: { value: ints } } });
  const floats = list((item) => (typeof item === 'number' ? item : undefined));
  if (floats) return create(CollectionDefSchema, { kind: { case: 'floatList', value: { value: floats } } });
  return undefined;
}

/** Collections that contain VariableDefs. */
const VARIABLE_COLLECTIONS: ReadonlySet<string> = new Set([
  GraphKeys.globalVariables,
  GraphKeys.trainableVariables,
  GraphKeys.modelVariables,
  GraphKeys.localVariables,
  GraphKeys.metricVariables,
  GraphKeys.movingAverageVariables,
  GraphKeys.globalStep,
]);

export interface ImportMetaGraphOptions extends ImportOptions {
  /** The graph to add to; default: the current graph. */
  readonly graph?: Graph;
}

/** Adds a MetaGraphDef's nodes and collections to a graph. */
export function importMetaGraph(
  meta: MetaGraphDef | Uint8Array,
  given: OrNull<ImportMetaGraphOptions> = {},
): MetaGraphDef {
  const { graph = currentGraph(), ...options } = withoutNull<ImportMetaGraphOptions>(given);
  const def = meta instanceof Uint8Array ? fromBinary(MetaGraphDefSchema, meta) : meta;
  if (!def.graphDef) throw invalid('The MetaGraphDef has no graph');
  graph.importGraphDef(def.graphDef, options);
  const prefix = options.prefix ? `${options.prefix.replace(/\/$/, '')}/` : '';
  const variables = new Map<string, Variable>();
  for (const [name, collection] of Object.entries(def.collectionDef)) {
    for (const item of decodeCollection(graph, name, collection, prefix, variables))
      graph.addToCollection(name, item);
  }
  return def;
}

function decodeCollection(
  graph: Graph,
  name: string,
  { kind }: CollectionDef,
  prefix: string,
  variables: Map<string, Variable>,
): unknown[] {
  switch (kind.case) {
    case 'nodeList':
      return kind.value.value.map((node) =>
        /:\d+$/.test(node) ? graph.output(prefix + node) : graph.operation(prefix + node),
      );
    case 'bytesList':
      if (VARIABLE_COLLECTIONS.has(name)) {
        return kind.value.value.map((bytes) => importVariable(graph, bytes, prefix, variables));
      }
      return kind.value.value.map((bytes) => new TextDecoder().decode(bytes));
    case 'int64List':
    case 'floatList':
      return kind.value.value;
    default:
      return [];
  }
}

/** One Variable per name, even if it is in several collections. */
function importVariable(
  graph: Graph,
  bytes: Uint8Array,
  prefix: string,
  known: Map<string, Variable>,
): Variable {
  const def = fromBinary(VariableDefSchema, bytes);
  let variable = known.get(def.variableName);
  if (!variable) {
    if (!def.isResource) {
      throw invalid(
        `Variable '${def.variableName}' of the MetaGraphDef is a reference variable, which is not supported`,
      );
    }
    variable = Variable.existing(graph, def, prefix);
    known.set(def.variableName, variable);
  }
  return variable;
}
