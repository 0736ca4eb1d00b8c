/** The functions that the nodes of a graph call, directly or through others. */
import { create } from '@bufbuild/protobuf';
import {
  type AttrValue,
  type FunctionDefLibrary,
  FunctionDefLibrarySchema,
  type NodeDef,
} from '../../../base/proto/generated/graph_pb.js';

export function pruneFunctions(
  library: FunctionDefLibrary | undefined,
  nodes: readonly NodeDef[],
): FunctionDefLibrary | undefined {
  if (!library) return undefined;
  const byName = new Map(library.function.map((fn) => [fn.signature?.name ?? '', fn]));
  const gradients = new Map(
    library.gradient.map(({ functionName, gradientFunc }) => [functionName, gradientFunc]),
  );
  const used = new Set<string>();
  const call = (name: string | undefined) => {
    if (name !== undefined && byName.has(name)) used.add(name);
  };
  const visit = (body: readonly NodeDef[]) => {
    for (const { op, attr } of body) {
      call(op);
      for (const value of Object.values(attr)) for (const name of functionsIn(value)) call(name);
    }
  };
  visit(nodes);
  for (const name of used) {
    call(gradients.get(name));
    const fn = byName.get(name);
    if (!fn) continue;
    visit(fn.nodeDef);
    for (const value of Object.values(fn.attr)) for (const other of functionsIn(value)) call(other);
  }
  return create(FunctionDefLibrarySchema, {
    function: library.function.filter((fn) => used.has(fn.signature?.name ?? '')),
    gradient: library.gradient.filter(({ functionName }) => used.has(functionName)),
    registeredGradients: library.registeredGradients,
  });
}

function functionsIn({ value }: AttrValue): string[] {
  if (value.case === 'func')
    return [value.value.name, ...Object.values(value.value.attr).flatMap(functionsIn)];
  return value.case === 'list' ? value.value.func.map(({ name }) => name) : [];
}
