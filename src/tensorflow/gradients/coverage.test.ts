/** Every gradient is checked, and FEATURES.md lists them all. */
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

test('every case belongs to a registered op', () => {
  const registered = new Set([...registeredGradients(), ...opsWithoutGradient()]);
  expect([...new Set(allCases.map(({ op }) => op))].filter((op) => !registered.has(op))).toEqual([]);
});

test('every registered gradient is checked by finite differences or against TensorFlow', () => {
  const unchecked = gradientStates().filter(({ numeric, oracle }) => numeric !== 'yes' && oracle !== 'yes');
  expect(unchecked.map(({ op }) => op)).toEqual([]);
});

test('a non-differentiable op has no gradient in TensorFlow, or a case that proves it', async () => {
  const { lookUp } = await askOracle({ cases: [], lookUp: opsWithoutGradient() });
  const shown = new Set(allCases.filter(({ noOracle }) => !noOracle).map(({ op }) => op));
  const differing = Object.entries(lookUp).filter(([op, state]) => state === 'gradient' && !shown.has(op));
  expect(differing).toEqual([]);
}, 600_000);

test('the gradient table in FEATURES.md is up to date', () => {
  const text = readFileSync(new URL('../../../FEATURES.md', import.meta.url), 'utf8');
  expect(text, 'run: npx tsx src/tensorflow/gradients/testing/write-features.ts').toBe(
    withGradientSection(text),
  );
});
