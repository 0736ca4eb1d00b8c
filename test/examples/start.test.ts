/** The demo of `npm start`: a ps is killed, training continues, and the summary says what happened. */
import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { LOADER } from '../child.js';
import { ROOT, startNode } from '../setup/run-setup.js';

test('trains, survives the loss of a ps, exports, predicts and keeps its directories', async () => {
  const { code, stdout, stderr } = await startNode(
    ['--import', LOADER, join(ROOT, 'examples/main-job.ts'), '--ps', '1', '--workers', '2', '--keep'],
    {
      ...{ SHOAL_TF_DIR: process.env.SHOAL_TF_DIR, SHOAL_CACHE: process.env.SHOAL_CACHE },
      SHOAL_LOG_LEVEL: 'warn',
    },
  ).ended;
  expect(code, stderr + stdout).toBe(0);
  expect(stdout).toMatch(/recovery {4}\d+\.\d s after the kill, training continued\n/);
  expect(stdout).toMatch(/lost steps {2}\d+: from step \d+ back to checkpoint \d+\n/);
  // The summary and the log have one number.
  const [, repeated] = /; (\d+) steps are repeated/.exec(stdout) ?? [];
  expect(stdout).toContain(`lost steps  ${repeated}: `);
  expect(stdout).toMatch(/checkpoint {2}model\.ckpt-30\d\d, complete: 1 shards?, 2 copies of each\n/);
  expect(stdout).toMatch(/over HTTP {3}y\(0\.0\) = 0\.3\d+;/);
  const [, directory] = /the directories of the tasks are in (\S+)\n/.exec(stdout) ?? [];
  expect(existsSync(join(directory!, 'tasks/worker-0/export'))).toBe(true);
  rmSync(directory!, { recursive: true });
});

test.each([
  ['--ps=0', '--ps must be a positive integer; it is 0'],
  ['--servers=2', "Unknown option '--servers'"],
])('%s is answered with the usage and exit code 2', async (flag, message) => {
  const { code, stderr } = await startNode(['--import', LOADER, join(ROOT, 'examples/main-job.ts'), flag], {})
    .ended;
  expect(stderr).toContain(`${message}\n\nnpm start [-- flags]\n`);
  expect(stderr).not.toContain('    at ');
  expect(code).toBe(2);
});
