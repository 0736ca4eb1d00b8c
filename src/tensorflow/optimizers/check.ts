/** Input checks of the optimizers; errors name the variable. */
import { invalid, ShoalError } from '../../base/errors/errors.js';
import { type Gradient, IndexedSlices, isDifferentiableType } from '../gradients/index.js';
import { type Operation, Output } from '../graph/operation.js';
import { INTEGER_VARIABLE } from '../ops/build.js';
import { type DType, isFloating, isInteger } from '../tensor/dtype.js';
import { formatShape, type PartialShape } from '../tensor/shape.js';
import { Variable } from '../variables/variable.js';

export function checkFloating(what: string, dtype: DType): void {
  if (isFloating(dtype)) return;
  throw invalid(`${what} is ${dtype}; only floating-point types can be trained`, {
    hint: 'Create the variable with { trainable: false } or omit it from varList; cast the loss to float32.',
  });
}

export function noGradients(owner: string, variables: readonly Variable[], loss?: Output): ShoalError {
  const names = variables.map(({ name }) => `'${name}'`).join(', ');
  const integers = loss && integersBefore(variables, loss);
  if (integers && integers.length > 0) {
    const listed = integers.map(({ name, dtype }) => `'${name}' is ${dtype}`).join(', ');
    return new ShoalError(
      'SHOAL_NO_GRADIENT',
      `${owner}: no gradient for any of its variables: ${names} (loss: ${loss}); ${listed}`,
      { op: integers[0]?.handle.op.name, hint: INTEGER_VARIABLE },
    );
  }
  const cut = loss && cutBetween(variables, loss);
  const where = cut ? `; the path to the loss is cut by ${cut.type} '${cut.name}'` : '';
  return new ShoalError(
    'SHOAL_NO_GRADIENT',
    `${owner}: no gradient for any of its variables: ${names}${loss ? ` (loss: ${loss})` : ''}${where}`,
    {
      hint: cut ? hintAbout(cut) : 'The loss must depend on at least one of them.',
      ...(cut && { op: cut.name }),
    },
  );
}

/** The integer variables that the loss depends on. */
function integersBefore(variables: readonly Variable[], loss: Output): Variable[] {
  const before = new Set(opsBefore(loss.op));
  return variables.filter(({ dtype, handle }) => isInteger(dtype) && before.has(handle.op));
}

function hintAbout({ type, outputs }: Operation): string {
  if (isStop(type)) return 'It stops gradients on purpose: leave it out between the variables and the loss.';
  return (
    `The result of ${type}, ${outputs[0]?.dtype}, has no gradient, also after a cast: compute the loss from what ` +
    'it gets, for example a cross-entropy of the scores instead of the classes.'
  );
}

const isStop = (type: string): boolean => type === 'StopGradient';

/** The op nearest to the loss that depends on one of the variables and passes no gradient on to it. */
function cutBetween(variables: readonly Variable[], loss: Output): Operation | undefined {
  const handles = new Set(variables.map(({ handle }) => handle.op));
  const isDifferentiable = ({ dtype }: Output) => isDifferentiableType(dtype);
  for (const op of opsBefore(loss.op)) {
    const isCut = isStop(op.type) || (op.inputs.some(isDifferentiable) && !op.outputs.some(isDifferentiable));
    if (!isCut) continue;
    for (const earlier of opsBefore(op)) if (handles.has(earlier)) return op;
  }
  return undefined;
}

/** An op and all that it depends on, the nearest first. */
function opsBefore(start: Operation): Iterable<Operation> {
  const found = new Set([start]);
  // A set yields what is added during its iteration.
  for (const op of found) for (const input of op.inputs) found.add(input.op);
  return found;
}

/** Validates all pairs; returns those that have a gradient. */
export function checkPairs(
  owner: string,
  pairs: readonly (readonly [Gradient | null, Variable])[],
): [Gradient, Variable][] {
  if (pairs.length === 0) throw invalid(`${owner}: no gradients to apply`);
  const seen = new Set<Variable>();
  for (const [gradient, variable] of pairs) {
    if (!(variable instanceof Variable)) {
      throw invalid(`${owner} applies gradients to variables; got ${String(variable)}`, {
        hint: 'For a partitioned variable, pair each gradient with its partition.',
      });
    }
    if (seen.has(variable)) throw invalid(`Variable '${variable.name}' is passed to ${owner} twice`);
    seen.add(variable);
    if (gradient === null) continue;
    checkFloating(`Variable '${variable.name}'`, variable.dtype);
    checkGradient(gradient, variable);
  }
  const graphs = new Set([...seen].map(({ graph }) => graph));
  if (graphs.size > 1) throw invalid(`${owner}: the variables belong to different graphs`);
  const given = pairs.filter((pair): pair is [Gradient, Variable] => pair[0] !== null);
  if (given.length === 0) throw noGradients(owner, [...seen]);
  return given;
}

function checkGradient(gradient: Gradient, variable: Variable): void {
  const what = `The gradient of variable '${variable.name}'`;
  if (!(gradient instanceof Output) && !(gradient instanceof IndexedSlices)) {
    throw invalid(`${what} must be an Output or IndexedSlices; got ${String(gradient)}`);
  }
  if (gradient.dtype !== variable.dtype) {
    throw invalid(`${what} is ${gradient.dtype}, the variable is ${variable.dtype}`);
  }
  const own = gradient instanceof Output ? gradient.shape : withoutRows(gradient.values.shape);
  const expected = gradient instanceof Output ? variable.shape : withoutRows(variable.shape);
  if (agree(own, expected)) return;
  const rows = gradient instanceof Output ? '' : ' per row';
  throw invalid(`${what} has shape ${formatShape(own)}${rows}, the variable ${formatShape(expected)}${rows}`);
}

const withoutRows = (shape: PartialShape): PartialShape => shape?.slice(1) ?? null;

function agree(a: PartialShape, b: PartialShape): boolean {
  if (a === null || b === null) return true;
  return a.length === b.length && a.every((dim, i) => dim === null || b[i] === null || dim === b[i]);
}
