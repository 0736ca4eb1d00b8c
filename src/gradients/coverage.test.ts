/** No gradient without a check, and FEATURES.md tells what there is. */
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { opsWithoutGradient, registeredGradients } from './registry.js';
import { allCases } from './testing/all-cases.js';
import { askOracle } from './testing/oracle.js';
import { gradientStates, withGradientSection } from './testing/state.js';

test('every registered gradient has a case', () => {
  expect(
    gradientStates()
      .filter(({ cases }) => cases === 0)
      .map(({ op }) => op),
  ).toEqual([]);
});

test('every case is of an op that is registered', () => {
  const registered = new Set([...registeredGradients(), ...opsWithoutGradient()]);
  expect([...new Set(allCases.map(({ op }) => op))].filter((op) => !registered.has(op))).toEqual([]);
});

test('every registered gradient is checked by differences or against TensorFlow', () => {
  const unchecked = gradientStates().filter(({ numeric, oracle }) => numeric !== 'yes' && oracle !== 'yes');
  expect(unchecked.map(({ op }) => op)).toEqual([]);
});

test('an op through which nothing flows has no gradient in TensorFlow, or a case that shows it gives none', async () => {
  const { lookUp } = await askOracle({ cases: [], lookUp: opsWithoutGradient() });
  const shown = new Set(allCases.filter(({ noOracle }) => !noOracle).map(({ op }) => op));
  const differing = Object.entries(lookUp).filter(([op, state]) => state === 'gradient' && !shown.has(op));
  expect(differing).toEqual([]);
}, 600_000);

test('FEATURES.md has the table of gradients as it is', () => {
  const text = readFileSync(new URL('../../FEATURES.md', import.meta.url), 'utf8');
  expect(text, 'run: npx tsx src/gradients/testing/write-features.ts').toBe(withGradientSection(text));
});
