/** The model as the page shows it: its modules, how tensors flow in them, its variables, and which task holds what. */
import { dtypeRow } from '../../../tensorflow/tensor/dtype.js';
import { formatShape, isFullyDefined, sizeOf } from '../../../tensorflow/tensor/shape.js';
import type { ModelModule, ModelVariable, PageModel } from '../state.js';
import { forwardOps } from './forward.js';
import type { ModelNode, PageGraph } from './model-graph.js';
import { ModuleFlow } from './module-flow.js';
import { ModulePaths, parentOf } from './module-paths.js';

const MOST_MODULES = 200;
const MOST_CHILDREN = 60;
const MOST_VARIABLES = 300;
/** Of all pictures together. */
const MOST_UNITS = 800;
const MOST_TASKS = 8;
const LONGEST_NAME = 300;

interface Counted {
  readonly path: string;
  ops: number;
  variables: number;
  bytes: number;
  isForward: boolean;
  readonly tasks: Set<string>;
  readonly children: Set<string>;
}

export function describeModel(model: PageGraph): PageModel {
  const variables = model.nodes.flatMap((node) => variableOf(node) ?? []);
  const paths = new ModulePaths(variables.map(({ name }) => name));
  const forward = forwardOps(model.nodes);
  const counted = countModules(model, variables, paths, forward);
  const { chosen, more } = chooseModules(counted);
  const flow = new ModuleFlow(model, paths, forward);
  let left = MOST_UNITS;
  const modules = chosen.map(({ path, ops, variables: count, bytes, tasks, isForward }): ModelModule => {
    const { units, edges } = isForward ? flow.of(path) : { units: [], edges: [] };
    const isShown = units.length > 1 && units.length <= left;
    if (isShown) left -= units.length;
    return {
      path: cut(path),
      ...{ ops, variables: count, bytes, tasks: [...tasks].sort().slice(0, MOST_TASKS) },
      units: isShown ? units.map((unit) => ({ ...unit, name: cut(unit.name) })) : [],
      edges: isShown ? edges : [],
    };
  });
  const bySize = [...variables].sort((a, b) => b.bytes - a.bytes);
  return {
    ops: model.nodes.length,
    modules,
    moreModules: more,
    variables: bySize.slice(0, MOST_VARIABLES).map((one) => ({ ...one, name: cut(one.name) })),
    moreVariables: Math.max(0, bySize.length - MOST_VARIABLES),
    placement: placementOf(variables),
  };
}

const cut = (name: string): string => (name.length > LONGEST_NAME ? `${name.slice(0, LONGEST_NAME)}…` : name);

/** A device as a place: `ps/0`; empty without a task. */
function placeOfDevice(device: string): string {
  const [, job, index] = /\/job:([^/]+)(?:.*\/task:(\d+))?/.exec(device) ?? [];
  return job === undefined ? '' : `${job}/${index ?? 0}`;
}

function variableOf({ name, device, variable }: ModelNode): ModelVariable | undefined {
  if (variable === undefined) return undefined;
  const { dtype, shape } = variable;
  const bytes = isFullyDefined(shape) ? sizeOf(shape) * dtypeRow(dtype).size : 0;
  return {
    name,
    dtype,
    shape: shape === null ? '?' : formatShape(shape),
    bytes,
    task: placeOfDevice(device),
  };
}

function countModules(
  { nodes }: PageGraph,
  variables: readonly ModelVariable[],
  paths: ModulePaths,
  forward: ReadonlySet<string>,
): ReadonlyMap<string, Counted> {
  const modules = new Map<string, Counted>();
  const add = (name: string, count: (module: Counted) => void) => {
    for (const path of paths.of(name).chain) {
      let module = modules.get(path);
      if (!module) {
        module = {
          ...{ path, ops: 0, variables: 0, bytes: 0, isForward: false },
          ...{ tasks: new Set<string>(), children: new Set<string>() },
        };
        modules.set(path, module);
        if (path !== '') modules.get(parentOf(path))?.children.add(path);
      }
      count(module);
    }
  };
  for (const { name, device } of nodes) {
    const place = placeOfDevice(device);
    add(name, (module) => {
      module.ops += 1;
      module.isForward ||= forward.has(name);
      if (place !== '') module.tasks.add(place);
    });
  }
  for (const { name, bytes } of variables)
    add(name, (module) => {
      module.variables += 1;
      module.bytes += bytes;
    });
  return modules;
}

/** The graph, its modules, then what is in those that compute the loss, as many as are shown; in the order of the tree. */
function chooseModules(modules: ReadonlyMap<string, Counted>): {
  readonly chosen: readonly Counted[];
  readonly more: number;
} {
  const root = modules.get('');
  if (!root) return { chosen: [], more: 0 };
  const chosen = new Set([root]);
  let more = 0;
  for (const module of chosen) {
    if (!module.isForward && module !== root) continue;
    const children = [...module.children].map((path) => modules.get(path)!);
    const largest = [...children].sort(byInterest).slice(0, MOST_CHILDREN);
    for (const child of children) {
      if (chosen.size < MOST_MODULES && largest.includes(child)) chosen.add(child);
      else more += 1;
    }
  }
  const inOrder: Counted[] = [];
  const visit = (module: Counted): void => {
    inOrder.push(module);
    for (const path of module.children) {
      const child = modules.get(path)!;
      if (chosen.has(child)) visit(child);
    }
  };
  visit(root);
  return { chosen: inOrder, more };
}

const byInterest = (a: Counted, b: Counted): number =>
  Number(b.isForward) - Number(a.isForward) || b.bytes - a.bytes || b.ops - a.ops;

function placementOf(variables: readonly ModelVariable[]): PageModel['placement'] {
  const tasks = new Map<string, { task: string; variables: number; bytes: number }>();
  for (const { task, bytes } of variables) {
    const known = tasks.get(task) ?? { task, variables: 0, bytes: 0 };
    known.variables += 1;
    known.bytes += bytes;
    tasks.set(task, known);
  }
  return [...tasks.values()].sort((a, b) => a.task.localeCompare(b.task, 'en', { numeric: true }));
}
