import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { described } from '../../../../test/described.js';
import { play } from '../testing/decision-transcript.js';
import { checkMetrics } from './decisions.js';

const folder = fileURLToPath(new URL('../testing/decisions/', import.meta.url));

describe('transcripts of decisions', () => {
  it.each(readdirSync(folder))('%s', async (name) => {
    await expect(play(readFileSync(folder + name, 'utf8'))).toMatchFileSnapshot(folder + name);
  });
});

it('an unknown metric is an error that lists the metrics', () => {
  const stop = { metric: 'acu', mode: 'max', patience: 1 } as const;
  expect(() => checkMetrics({ stop }, ['auc', 'loss'])).toThrow(
    described(/earlyStopping watches 'eval\/acu'.*\n.*The metrics are eval\/auc, eval\/loss/),
  );
});
