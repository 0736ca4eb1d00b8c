/**
 * The task of each op: that of the handles it uses; else its device; else that of the op it is colocated with; else
 * the caller. Ops that are connected by a handle are on one task, that of the op which creates it: as in TensorFlow,
 * the devices of the others do not count.
 */
import { invalid } from '../../../base/errors/errors.js';
import { type DeviceSpec, parseDevice } from '../../../tensorflow/graph/device.js';
import type { Operation } from '../../../tensorflow/graph/operation.js';
import type { NeededOps } from './needed.js';
import { isHandle, isHandleEdge } from './op-kinds.js';
import { UnionFind } from './union-find.js';

export interface RunPlacement {
  /** The task that starts the run. */
  readonly self: string;
  /** The task of a device name with a job; throws if the run cannot use it. */
  readonly taskOf: (device: DeviceSpec) => string;
}

export function placeOps(needed: NeededOps, placement: RunPlacement): ReadonlyMap<Operation, string> {
  const groups = new UnionFind<Operation>();
  for (const op of needed.ops)
    for (const input of needed.inputsOf(op)) if (isHandleEdge(input, op)) groups.join(input.op, op);

  const placed = new Map<Operation, { readonly task: string; readonly by: Operation }>();
  for (const op of needed.ops) {
    const task = ownTask(op, placement);
    if (task === undefined) continue;
    const group = groups.find(op);
    const known = placed.get(group);
    // The op that creates a handle comes before those that use it; without a device, its users must agree.
    if (known && known.task !== task && (isHandle(op) || !isHandle(known.by))) {
      throw invalid(
        `'${known.by.name}' is on ${known.task} and '${op.name}' on ${task}, but they are connected by a handle, which is valid on one task only`,
        { op: op.name },
      );
    }
    if (!known) placed.set(group, { task, by: op });
  }

  const taskOf = (op: Operation, seen: ReadonlySet<Operation> = new Set()): string | undefined => {
    const group = groups.find(op);
    const known = placed.get(group)?.task ?? ownTask(op, placement);
    if (known !== undefined || seen.has(group)) return known;
    for (const other of colocatedWith(op)) {
      const task = taskOf(other, new Set([...seen, group]));
      if (task !== undefined) {
        placed.set(group, { task, by: other });
        return task;
      }
    }
    return undefined;
  };
  // The colocation of any member places its group.
  for (const op of needed.ops) taskOf(op);
  return new Map(needed.ops.map((op) => [op, placed.get(groups.find(op))?.task ?? placement.self]));
}

function ownTask(op: Operation, { taskOf }: RunPlacement): string | undefined {
  const { device } = op;
  if (device === '') return undefined;
  const spec = parseDevice(device);
  return spec.job === undefined ? undefined : taskOf(spec);
}

function colocatedWith(op: Operation): Operation[] {
  const groups = op.attr('_class');
  if (!Array.isArray(groups)) return [];
  return groups.flatMap((group) => {
    const name = /^loc:@(.+)$/.exec(String(group))?.[1];
    return name !== undefined && op.graph.hasOperation(name) ? [op.graph.operation(name)] : [];
  });
}
