import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { childEnvironment, ROOT } from '../test/setup/run-setup.js';
import type { Experiment, Needs } from './experiment.js';
import { prepareExperiment } from './prerequisites.js';

const sample = (needs: Needs): Experiment => ({
  name: 'sample',
  description: '',
  needs,
  run: async () => {},
});

let nowhere: string;
beforeEach(() => {
  nowhere = mkdtempSync(join(tmpdir(), 'shoal-needs-'));
});
afterEach(() => rmSync(nowhere, { recursive: true }));

describe('an experiment is refused before it starts', () => {
  it.runIf(process.platform === 'linux')('without ip, with the package to install', async () => {
    const preparing = prepareExperiment(sample({ isolation: 'required' }), {
      env: {},
      probing: { path: nowhere },
    });
    await expect(preparing).rejects.toMatchObject({
      code: 'SHOAL_UNSUPPORTED',
      message: expect.stringContaining('the command ip is missing (apt-get install iproute2)'),
      hint: expect.stringContaining('as root'),
    });
  });

  it('without namespaces, with a workaround if there is one', async () => {
    const options = { env: {}, probing: { platform: 'darwin' } } as const;
    await expect(prepareExperiment(sample({ isolation: 'waivable' }), options)).rejects.toMatchObject({
      hint: expect.stringContaining('--directories'),
    });
    const waived = { ...options, env: { SHOAL_LAB: 'directories' } };
    await prepareExperiment(sample({ isolation: 'waivable' }), waived);
    await expect(prepareExperiment(sample({ isolation: 'required' }), waived)).rejects.toMatchObject({
      code: 'SHOAL_UNSUPPORTED',
    });
  });

  it('without enough disk space', async () => {
    const needs = { diskBytes: ({ rows }: Readonly<Record<string, unknown>>) => Number(rows) * 1e9 };
    await prepareExperiment(sample(needs), { flags: { rows: '0' } });
    await expect(prepareExperiment(sample(needs), { flags: { rows: '1e9' } })).rejects.toMatchObject({
      code: 'SHOAL_NO_SPACE',
      message: expect.stringMatching(/sample needs \d+ MB in .*, and \d+ MB are free/),
    });
  });

  it('with a Python that has no TensorFlow', async () => {
    const env = { SHOAL_ORACLE_PYTHON: join(nowhere, 'python') };
    await expect(prepareExperiment(sample({ python: true }), { env })).rejects.toMatchObject({
      code: 'SHOAL_NOT_FOUND',
      message: expect.stringContaining('is not a program'),
    });
  });
});

it('npm run lab -- 000 reports immediately what is missing, and exits with 1', () => {
  const lab = [
    join(ROOT, 'node_modules/tsx/dist/cli.mjs'),
    join(ROOT, 'lab/main.ts'),
    '000',
    '--directories',
  ];
  const env = childEnvironment({ SHOAL_ORACLE_PYTHON: join(nowhere, 'python') });
  const { status, stdout, stderr } = spawnSync(process.execPath, lab, { env, encoding: 'utf8' });
  expect({ status, stdout }).toEqual({ status: 1, stdout: '' });
  expect(stderr).toMatch(/^SHOAL_NOT_FOUND: SHOAL_ORACLE_PYTHON is .*\n {2}hint: /);
});

it('a program that runs without the oracle is given it', async () => {
  const env: NodeJS.ProcessEnv = {
    HOME: process.env.HOME,
    PATH: process.env.PATH,
    SHOAL_ORACLE_PYTHON: process.env.SHOAL_ORACLE_PYTHON,
  };
  await prepareExperiment(sample({ python: true }), { env });
  expect(env.SHOAL_ORACLE_PYTHON).toMatch(/python/);
});
