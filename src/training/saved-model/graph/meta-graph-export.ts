/**
 * The MetaGraphDef of an export. The graph that trains is not changed: a copy of what the export needs of it gets the
 * ops that restore the variables, and collections that name only what is there.
 */
import { create, toBinary } from '@bufbuild/protobuf';
import { anyPack } from '@bufbuild/protobuf/wkt';
import { invalid } from '../../../base/errors/errors.js';
import { AttrValueSchema, type GraphDef, type NodeDef } from '../../../base/proto/generated/graph_pb.js';
import {
  type AssetFileDef,
  AssetFileDefSchema,
  CollectionDefSchema,
  type MetaGraphDef,
  type TensorInfo,
} from '../../../base/proto/generated/model_pb.js';
import { Graph } from '../../../tensorflow/graph/graph.js';
import { Operation, Output } from '../../../tensorflow/graph/operation.js';
import { group } from '../../../tensorflow/ops/creation.js';
import { GraphKeys } from '../../../tensorflow/variables/collections.js';
import { exportMetaGraph } from '../../../tensorflow/variables/meta-graph.js';
import type { VarList } from '../../train/checkpoints/saver.js';
import { checkSignatures, type SignatureDefMap } from '../signatures/check-signatures.js';
import { ASSETS_KEY, LEGACY_INIT_OP_KEY, MAIN_OP_KEY } from '../signatures/constants.js';
import type { NamedVariable } from '../variables/trained-variables.js';
import { type Assets, relocate } from './assets.js';
import { chooseVariables, isVariable, nodesOfVariable } from './export-variables.js';
import { nodesOf, pruneGraph, reach, reachOfSignature } from './prune-graph.js';
import { addSaverOps } from './saver-ops.js';

export interface MetaGraphOptions {
  /** The signatures by name; default: none. */
  readonly signatureDefMap?: SignatureDefMap;
  /** Constants that hold paths. Default: those of the collection ASSET_FILEPATHS that the export needs. */
  readonly assetsCollection?: readonly Output[];
  /** Runs when the model is loaded. Default: the initializers of the tables that the signatures use. */
  readonly mainOp?: Operation;
  /** The same under the name that TensorFlow 1 gave it; default: none. */
  readonly legacyInitOp?: Operation;
  /** Whether to remove devices; default: true. */
  readonly clearDevices?: boolean;
  /** Omits attributes that have their default, for older versions of TensorFlow. Default: false. */
  readonly stripDefaultAttrs?: boolean;
  /** Which variables, and their names in the export. Default: those that the signatures and init ops read. */
  readonly varList?: VarList;
}

export interface ExportedMetaGraph {
  readonly meta: MetaGraphDef;
  readonly variables: readonly NamedVariable[];
}

export function makeMetaGraph(
  source: Graph,
  tags: readonly string[],
  options: MetaGraphOptions,
  assets: Assets,
): ExportedMetaGraph {
  const { signatureDefMap: signatures = {}, mainOp, legacyInitOp, clearDevices = true } = options;
  if (tags.length === 0) throw invalid('An export needs at least one tag, such as tags.serving');
  if (mainOp && legacyInitOp) throw invalid('An export has a mainOp or a legacyInitOp, not both');
  const initOp = mainOp ?? legacyInitOp;
  if (initOp && initOp.graph !== source)
    throw invalid(`The init op ${initOp} is not of the graph that is exported`);
  checkSignatures(source, signatures);
  const complete = source.toGraphDef();
  const nodes = nodesOf(complete);
  const needs = new Map(
    Object.entries(signatures).map(([name, one]) => [name, reachOfSignature(nodes, one)]),
  );
  const tables = tableInitializers(source, new Set([...needs.values()].flatMap((names) => [...names])));
  const initOps = initOp ? [initOp] : tables;
  const init = reach(
    nodes,
    initOps.map(({ name }) => name),
  );
  const variables = chooseVariables({
    graph: source,
    nodes,
    signatures: needs,
    init,
    varList: options.varList,
  });
  const { def, renamed } = pruneGraph({
    graph: source,
    def: complete,
    signatures,
    keep: [...init, ...tables.map(({ name }) => name), ...variables.flatMap(nodesOfVariable)],
  });
  const kept = nodesOf(def);
  const files = takeAssets(source, options.assetsCollection, kept, assets);
  if (clearDevices) clearAllDevices(def);

  using graph = new Graph();
  graph.importGraphDef(def);
  copyCollections(source, graph, kept, variables);
  const saverDef = variables.length > 0 ? addSaverOps(graph, variables) : undefined;
  const initName = initOp?.name ?? (tables.length > 0 ? groupOf(graph, tables) : undefined);
  if (initName !== undefined)
    graph.addToCollection(legacyInitOp ? LEGACY_INIT_OP_KEY : MAIN_OP_KEY, graph.operation(initName));
  const meta = exportMetaGraph({
    graph,
    tags,
    clearDevices,
    saverDef,
    signatureDef: renameInputs(signatures, renamed),
  });
  addAssetDefs(meta, files);
  if (options.stripDefaultAttrs) stripDefaults(graph, meta);
  return { meta, variables };
}

/** The initializers of the tables among the nodes. */
function tableInitializers(graph: Graph, needed: ReadonlySet<string>): Operation[] {
  return graph
    .getCollection<Operation>(GraphKeys.tableInitializers)
    .filter(({ inputs }) => inputs[0] !== undefined && needed.has(inputs[0].op.name));
}

function groupOf(graph: Graph, ops: readonly Operation[]): string {
  const own = ops.map(({ name }) => graph.operation(name));
  return graph.asDefault(() => group(own, { name: 'init_all_tables' })).name;
}

function takeAssets(
  source: Graph,
  given: readonly Output[] | undefined,
  nodes: ReadonlyMap<string, NodeDef>,
  assets: Assets,
): AssetFileDef[] {
  const found = source.getCollection<Output>(GraphKeys.assetFilepaths);
  const tensors = new Set([...(given ?? []), ...found.filter(({ op }) => nodes.has(op.name))]);
  return [...tensors].flatMap((tensor) => {
    const node = nodes.get(tensor.op.name);
    const def = assets.add(tensor, node ?? tensor.op.nodeDef());
    if (!node) return [];
    relocate(node, def.filename);
    return [def];
  });
}

function clearAllDevices(def: GraphDef): void {
  for (const node of def.node) node.device = '';
  for (const fn of def.library?.function ?? []) for (const node of fn.nodeDef) node.device = '';
}

/** Collections, limited to what is exported. Objects of training, such as queue runners, are omitted. */
function copyCollections(
  source: Graph,
  graph: Graph,
  nodes: ReadonlyMap<string, NodeDef>,
  variables: readonly NamedVariable[],
): void {
  const exported = new Set(variables.map(({ variable }) => variable));
  for (const name of source.collectionNames) {
    for (const item of source.getCollection(name)) {
      const isThere = isVariable(item)
        ? exported.has(item)
        : item instanceof Operation
          ? nodes.has(item.name)
          : item instanceof Output
            ? nodes.has(item.op.name)
            : typeof item !== 'object';
      if (isThere) graph.addToCollection(name, item);
    }
  }
}

const mapped = (infos: Readonly<Record<string, TensorInfo>>, map: (info: TensorInfo) => TensorInfo) =>
  Object.fromEntries(Object.entries(infos).map(([key, info]) => [key, map(info)]));

function renameInputs(signatures: SignatureDefMap, renamed: ReadonlyMap<string, string>): SignatureDefMap {
  if (renamed.size === 0) return signatures;
  const rename = (info: TensorInfo): TensorInfo => {
    const { encoding } = info;
    const to = (name: string) => renamed.get(name) ?? name;
    if (encoding.case === 'name') return { ...info, encoding: { case: 'name', value: to(encoding.value) } };
    if (encoding.case !== 'cooSparse') return info;
    const { value } = encoding;
    return {
      ...info,
      encoding: {
        case: 'cooSparse',
        value: {
          ...value,
          valuesTensorName: to(value.valuesTensorName),
          indicesTensorName: to(value.indicesTensorName),
          denseShapeTensorName: to(value.denseShapeTensorName),
        },
      },
    };
  };
  return Object.fromEntries(
    Object.entries(signatures).map(([name, signature]) => [
      name,
      {
        ...signature,
        inputs: mapped(signature.inputs, rename),
        outputs: mapped(signature.outputs, rename),
      },
    ]),
  );
}

/** Lists the assets for both TensorFlow 1 and TensorFlow 2. */
function addAssetDefs(meta: MetaGraphDef, files: readonly AssetFileDef[]): void {
  if (files.length === 0) return;
  meta.assetFileDef = [...files];
  const value = files.map((file) => anyPack(AssetFileDefSchema, file));
  meta.collectionDef[ASSETS_KEY] = create(CollectionDefSchema, {
    kind: { case: 'anyList', value: { value } },
  });
}

function stripDefaults(graph: Graph, meta: MetaGraphDef): void {
  const isFunction = new Set(meta.graphDef?.library?.function.map((fn) => fn.signature?.name));
  const strip = ({ op, attr }: NodeDef) => {
    if (isFunction.has(op)) return;
    for (const { name, defaultValue } of graph.opDef(op).attr) {
      const own = attr[name];
      if (!own || !defaultValue) continue;
      const [a, b] = [toBinary(AttrValueSchema, own), toBinary(AttrValueSchema, defaultValue)];
      if (Buffer.compare(a, b) === 0) delete attr[name];
    }
  };
  for (const node of meta.graphDef?.node ?? []) strip(node);
  for (const fn of meta.graphDef?.library?.function ?? []) for (const node of fn.nodeDef) strip(node);
  if (meta.metaInfoDef) meta.metaInfoDef.strippedDefaultAttrs = true;
}
