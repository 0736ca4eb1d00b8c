/**
 * Compares the kernels that differ between oneDNN and Eigen with Python, in the setting that this test run does not use.
 * The setting is fixed when a process loads the library, so the tests run again in separate processes.
 */
import { join } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { expect, test } from 'vitest';
import { library } from '../src/tensorflow/native/library/library.js';
import { ONEDNN_VARIABLE } from '../src/tensorflow/native/library/onednn.js';
import { ROOT, startNode } from './setup/run-setup.js';

const FILES = [
  'src/tensorflow/gradients/ops/nn.test.ts',
  'src/tensorflow/gradients/ops/conv.test.ts',
  'src/tensorflow/layers/layers.test.ts',
];

test.skipIf(process.platform !== 'linux')(
  'convolutions, pooling and normalization pass in the other setting of oneDNN',
  async () => {
    const vitest = join(ROOT, 'node_modules/vitest/vitest.mjs');
    const args = [vitest, 'run', '--root', ROOT, '--maxWorkers=1', '--reporter=dot', ...FILES];
    const { code, stdout, stderr } = await startNode(args, {
      SHOAL_ORACLE_PYTHON: process.env.SHOAL_ORACLE_PYTHON,
      [ONEDNN_VARIABLE]: library().oneDnn ? '0' : '1',
    }).ended;
    expect(code, `${stdout}\n${stderr}`).toBe(0);
    expect(stripVTControlCharacters(stdout)).toMatch(new RegExp(`Test Files\\D+${FILES.length} passed`));
  },
);
