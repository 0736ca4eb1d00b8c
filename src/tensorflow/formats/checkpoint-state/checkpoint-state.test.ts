import { resolve } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { damaged, valueOrCodedError } from '../../../../test/formats/fuzz.js';
import {
  type CheckpointState,
  formatCheckpointState,
  parseCheckpointState,
  relativePaths,
  resolvePaths,
} from './checkpoint-state.js';

const state: CheckpointState = {
  modelCheckpointPath: 'model.ckpt-2',
  allModelCheckpointPaths: ['model.ckpt-1', 'model.ckpt-2'],
  allModelCheckpointTimestamps: [1.5, 2.5],
  lastPreservedTimestamp: 0,
};

describe('a checkpoint state', () => {
  test('is written with one field per line', () => {
    expect(formatCheckpointState(state)).toBe(
      [
        'model_checkpoint_path: "model.ckpt-2"',
        'all_model_checkpoint_paths: "model.ckpt-1"',
        'all_model_checkpoint_paths: "model.ckpt-2"',
        'all_model_checkpoint_timestamps: 1.5',
        'all_model_checkpoint_timestamps: 2.5',
        '',
      ].join('\n'),
    );
  });

  test('round-trips with any paths', () => {
    const path = fc.string({ unit: 'grapheme' });
    fc.assert(
      fc.property(path, fc.array(path), fc.array(fc.double({ noNaN: true })), (newest, all, times) => {
        const some = {
          modelCheckpointPath: newest,
          allModelCheckpointPaths: all,
          allModelCheckpointTimestamps: times.map((time) => time + 0),
          lastPreservedTimestamp: 7,
        };
        expect(parseCheckpointState(formatCheckpointState(some))).toEqual(some);
      }),
    );
  });

  test('is read with other quotes, escapes, comments and lists', () => {
    const text = `# a comment
      model_checkpoint_path: 'it\\'s \\303\\274' all_model_checkpoint_paths: ["a", "b" "c"]
      all_model_checkpoint_timestamps: 1e3; last_preserved_timestamp: 4`;
    expect(parseCheckpointState(text)).toEqual({
      modelCheckpointPath: "it's ü",
      allModelCheckpointPaths: ['a', 'bc'],
      allModelCheckpointTimestamps: [1000],
      lastPreservedTimestamp: 4,
    });
  });

  test('has relative paths for checkpoints in its directory', () => {
    const absolute = resolvePaths(state, '/logs/run');
    expect(absolute.modelCheckpointPath).toBe('/logs/run/model.ckpt-2');
    expect(relativePaths(absolute, '/logs/run')).toEqual(state);
    expect(relativePaths(absolute, '/logs/other').modelCheckpointPath).toBe('/logs/run/model.ckpt-2');
    expect(
      relativePaths({ ...state, modelCheckpointPath: 'logs/m-1' }, resolve('logs')).modelCheckpointPath,
    ).toBe('m-1');
    expect(resolvePaths({ ...state, modelCheckpointPath: '/elsewhere/m' }, '/logs').modelCheckpointPath).toBe(
      '/elsewhere/m',
    );
  });

  test('parses any text to a state or a ShoalError', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) =>
        valueOrCodedError(() => parseCheckpointState(text)),
      ),
    );
    const good = Buffer.from(formatCheckpointState(state));
    const read = (bytes: Uint8Array) =>
      valueOrCodedError(() => parseCheckpointState(Buffer.from(bytes).toString()));
    fc.assert(fc.property(damaged(good), read), { numRuns: 500 });
  });
});
