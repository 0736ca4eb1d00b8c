import { mkdirSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import {
  installDir,
  pinFor,
  platformKey,
  pythonRecordFile,
  readLock,
} from '../../../../scripts/setup/locate.mjs';
import { isShoalError, type ShoalError } from '../../../base/errors/errors.js';
import { locateTensorFlow } from './locate.js';

const pin = pinFor(readLock(), platformKey());
const { cc, framework } = pin.libraries;
let scratch: string;
let env: Record<string, string>;

beforeEach(() => {
  scratch = mkdtempSync(join(tmpdir(), 'shoal-locate-'));
  env = { SHOAL_CACHE: join(scratch, 'cache') };
});

afterEach(() => rmSync(scratch, { recursive: true, force: true }));

/** Sparse files of the pinned sizes. */
function putLibraries(dir: string, ccSize = cc.size): void {
  mkdirSync(dir, { recursive: true });
  for (const [file, size] of [
    [cc.file, ccSize],
    [framework.file, framework.size],
  ] as const) {
    writeFileSync(join(dir, file), '');
    truncateSync(join(dir, file), size);
  }
}

function record(dir: string, version: string): void {
  mkdirSync(env.SHOAL_CACHE!, { recursive: true });
  writeFileSync(pythonRecordFile(pin, env), JSON.stringify({ dir, version }));
}

function failure(): ShoalError {
  try {
    locateTensorFlow(env);
  } catch (error) {
    if (isShoalError(error)) return error;
    throw error;
  }
  throw new Error('the libraries were found');
}

test('finds the libraries that setup put into the cache', () => {
  putLibraries(installDir(pin, env));
  expect(locateTensorFlow(env)).toMatchObject({
    dir: installDir(pin, env),
    ccPath: join(installDir(pin, env), cc.file),
    frameworkPath: join(installDir(pin, env), framework.file),
    source: 'cache',
    version: pin.version,
  });
});

test('SHOAL_TF_DIR takes precedence over the cache', () => {
  putLibraries(installDir(pin, env));
  putLibraries(join(scratch, 'mine'));
  env.SHOAL_TF_DIR = join(scratch, 'mine');
  expect(locateTensorFlow(env)).toMatchObject({ dir: join(scratch, 'mine'), source: 'SHOAL_TF_DIR' });
});

test('SHOAL_TF_DIR may be the parent of a Python package, whose metadata has the version', () => {
  putLibraries(join(scratch, 'site/tensorflow'), 5);
  mkdirSync(join(scratch, 'site/tensorflow_cpu-2.20.1.dist-info'));
  env.SHOAL_TF_DIR = join(scratch, 'site');
  expect(locateTensorFlow(env)).toMatchObject({ dir: join(scratch, 'site/tensorflow'), version: '2.20.1' });
});

test('a custom build in SHOAL_TF_DIR is used, with unknown version', () => {
  putLibraries(join(scratch, 'mine'), 5);
  env.SHOAL_TF_DIR = join(scratch, 'mine');
  expect(locateTensorFlow(env).version).toBeUndefined();
});

test('a wrong SHOAL_TF_DIR is an error even if the cache has the libraries', () => {
  putLibraries(installDir(pin, env));
  env.SHOAL_TF_DIR = join(scratch, 'nowhere');
  expect(failure()).toMatchObject({ code: 'SHOAL_LIBRARY', hint: expect.stringContaining('SHOAL_TF_DIR') });
});

test('a truncated library in the cache is not used', () => {
  putLibraries(installDir(pin, env), 5);
  expect(failure().message).toContain(`${cc.file} has 5 bytes instead of ${cc.size}`);
});

test('the Python TensorFlow recorded by setup is used if the cache is empty', () => {
  putLibraries(join(scratch, 'python'));
  record(join(scratch, 'python'), pin.version);
  expect(locateTensorFlow(env)).toMatchObject({ dir: join(scratch, 'python'), source: 'python' });
});

test('a Python TensorFlow of another version is used only with SHOAL_TF=python', () => {
  putLibraries(join(scratch, 'python'));
  record(join(scratch, 'python'), '2.20.0');
  expect(failure().message).toContain(`version 2.20.0, the pinned one is ${pin.version}`);
  env.SHOAL_TF = 'python';
  expect(locateTensorFlow(env)).toMatchObject({ source: 'python', version: '2.20.0' });
});

test('the error lists every searched path and suggests running setup', () => {
  const { code, message, hint } = failure();
  expect(code).toBe('SHOAL_LIBRARY');
  expect(message).toContain('SHOAL_TF_DIR: not set');
  expect(message).toContain(installDir(pin, env));
  expect(message).toContain(pythonRecordFile(pin, env));
  expect(hint).toContain('npx shoal setup');
});
