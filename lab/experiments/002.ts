/**
 * Scenario 002: softmax regression on real digits is trained and exported, with the ps and the workers on the same hosts and
 * on others. Unmodified Python TensorFlow serves each export, and after a publish `shoal serve` does on another host.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { invalid } from '../../src/base/errors/errors.js';
import type { Experiment } from '../experiment.js';
import { exportPlacement, PLACEMENTS, type PlacementName, pythonReference } from '../scenarios/softmax.js';

const NAMES = Object.keys(PLACEMENTS) as PlacementName[];

export const experiment: Experiment = {
  name: '002',
  description: 'scenario 002: softmax regression is trained and exported; Python serves the export',
  flags: {
    placement: {
      type: 'string',
      default: NAMES.join(),
      description: 'where ps and workers run',
    },
    steps: { type: 'string', default: '1000', description: 'the last step' },
    logs: { type: 'string', description: "a directory for each task's output" },
  },
  needs: { isolation: 'waivable', python: true, diskBytes: 1e9 },
  async run(ctx) {
    const wanted = String(ctx.flags.placement).split(',');
    const unknown = wanted.find((name) => !(name in PLACEMENTS));
    if (unknown !== undefined) {
      throw invalid(`there is no placement ${unknown}`, { hint: `There are: ${NAMES.join(', ')}.` });
    }
    const directory = await mkdtemp(join(tmpdir(), 'shoal-002-'));
    try {
      const reference = await pythonReference(ctx, directory);
      for (const name of wanted) await exportPlacement(ctx, name as PlacementName, reference);
    } finally {
      await rm(directory, { recursive: true, force: true });
    }
  },
};
