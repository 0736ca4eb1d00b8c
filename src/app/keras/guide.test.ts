/** The table of the guide lists what exists. */
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { callbacks, layers } from './index.js';
import { LOSSES } from './training/losses.js';
import { METRICS } from './training/metrics.js';
import { OPTIMIZERS } from './training/optimizers.js';

const guide = readFileSync(new URL('../../../docs/guide/keras.md', import.meta.url), 'utf8');
const table = guide.slice(guide.indexOf('## What exists'), guide.indexOf('## Layers and models'));
const namesIn = (...rows: string[]): string[] =>
  rows.flatMap((row) => {
    const line = table.split('\n').find((one) => one.startsWith(`| ${row} |`)) ?? '';
    return [...line.matchAll(/`(\w+)`/g)].map(([, name]) => name!);
  });
const functions = (exported: object): string[] =>
  Object.entries(exported).flatMap(([name, value]) =>
    typeof value === 'function' && name !== 'Layer' ? [name] : [],
  );

test.each([
  ['layers', functions(layers), ['layers', 'convolution', 'pooling', 'sizes', 'sequences', 'several inputs']],
  ['optimizers', Object.keys(OPTIMIZERS), ['optimizers']],
  ['losses', Object.keys(LOSSES), ['losses']],
  ['metrics', Object.keys(METRICS).filter((name) => !Object.hasOwn(LOSSES, name)), ['metrics']],
  ['callbacks', functions(callbacks), ['callbacks']],
])('the %s', (_what, exist, rows) => {
  expect(namesIn(...rows).sort()).toEqual([...exist].sort());
});
