import { expect, test } from 'vitest';
import { checkOneDnn } from './onednn.js';

test.each([
  [{}, 'linux-x64', 'ok', { enabled: true, from: 'Shoal' }],
  [{ TF_ENABLE_ONEDNN_OPTS: '1' }, 'linux-arm64', 'ok', { enabled: true, from: 'environment' }],
  [{ TF_ENABLE_ONEDNN_OPTS: 'False' }, 'linux-x64', 'ok', { enabled: false, from: 'environment' }],
  [{ TF_ENABLE_ONEDNN_OPTS: 'yes' }, 'linux-x64', 'warning', { enabled: undefined, from: 'environment' }],
  [{}, 'linux-arm64', 'ok', { enabled: undefined, from: 'TensorFlow' }],
  [{}, 'darwin-arm64', 'ok', { enabled: false, from: 'build' }],
] as const)('%j on %s is %s', (env, platform, status, details) => {
  expect(checkOneDnn(env, platform)).toMatchObject({ name: 'oneDNN', status, details });
});
