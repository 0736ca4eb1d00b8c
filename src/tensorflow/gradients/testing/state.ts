/** The registered gradients and how each is checked, for FEATURES.md. */
import { opsWithoutGradient, registeredGradients } from '../registry.js';
import { allCases } from './all-cases.js';
import type { GradientCase } from './case.js';
import { noNumericReason } from './instance.js';

/** 'yes', or why not. */
export interface GradientState {
  readonly op: string;
  readonly cases: number;
  readonly numeric: string;
  readonly oracle: string;
  readonly second: boolean;
}

/** Ops whose differentiation always fails: there is no value to check. */
const REFUSING = new Set(['PreventGradient']);

export function gradientStates(cases: readonly GradientCase[] = allCases): GradientState[] {
  const byOp = groupByOp(cases);
  const ops = registeredGradients().filter((op) => !REFUSING.has(op));
  return ops.map((op) => {
    const own = byOp.get(op) ?? [];
    return {
      op,
      cases: own.length,
      numeric: firstReason(own, noNumericReason),
      oracle: firstReason(own, ({ noOracle }) => noOracle),
      second: own.some(({ order }) => order === 2),
    };
  });
}

/** 'yes' if the check applies to some case, else the first reason against it. */
function firstReason(
  cases: readonly GradientCase[],
  reason: (one: GradientCase) => string | undefined,
): string {
  if (cases.length === 0) return 'no case';
  const reasons = cases.map(reason);
  return reasons.includes(undefined) ? 'yes' : (reasons[0] as string);
}

function groupByOp(cases: readonly GradientCase[]): Map<string, GradientCase[]> {
  const groups = new Map<string, GradientCase[]>();
  for (const one of cases) {
    const group = groups.get(one.op);
    if (group) group.push(one);
    else groups.set(one.op, [one]);
  }
  return groups;
}

export const MARKERS = ['<!-- gradients -->', '<!-- /gradients -->'] as const;

/** The text between the markers in FEATURES.md. */
export function gradientSection(states: readonly GradientState[] = gradientStates()): string {
  const count = (holds: (state: GradientState) => boolean) => states.filter(holds).length;
  const rows = states.map(
    ({ op, cases, numeric, oracle, second }) =>
      `| ${op} | ${cases} | ${numeric} | ${oracle} | ${second ? 'yes' : ''} |`,
  );
  return [
    `${states.length} ops have a gradient in TypeScript: ${count(({ numeric }) => numeric === 'yes')} are checked by ` +
      `central differences, ${count(({ oracle }) => oracle === 'yes')} against Python TensorFlow, ` +
      `${count(({ second }) => second)} in second order too. For other ops TensorFlow's C++ gradient is used where there is one.`,
    '',
    '| op | cases | differences | TensorFlow | second order |',
    '|---|---|---|---|---|',
    ...rows,
    '',
    `Nothing flows back through: ${opsWithoutGradient().join(', ')}.`,
  ].join('\n');
}

/** Replaces the section between the markers; appends it if there are none. */
export function withGradientSection(text: string): string {
  const [open, close] = MARKERS;
  const section = `${open}\n${gradientSection()}\n${close}`;
  const start = text.indexOf(open);
  const end = text.indexOf(close);
  if (start < 0 || end < start) return `${text.trimEnd()}\n\n## Gradients\n\n${section}\n`;
  return text.slice(0, start) + section + text.slice(end + close.length);
}
