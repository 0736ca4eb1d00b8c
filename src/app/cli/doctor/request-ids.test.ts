import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { locateTensorFlow } from '../../../tensorflow/native/library/locate.js';
import { checkRequestIds } from './request-ids.js';

let dir: string;
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'shoal-doctor-'));
});
afterAll(() => rmSync(dir, { recursive: true }));

const loaded = (): boolean =>
  existsSync('/proc/self/maps') && readFileSync('/proc/self/maps', 'utf8').includes('libtensorflow_cc');

test('reports that the pinned library can be patched, without loading it', () => {
  const finding = checkRequestIds(process.env);
  const status = process.platform === 'linux' ? 'ok' : 'warning';
  expect(finding).toMatchObject({ name: 'request ids', status });
  expect(loaded()).toBe(false);
});

test('warns about the consequence for a library without the other generator', () => {
  const { ccPath } = locateTensorFlow();
  const place = join(dir, 'other');
  mkdirSync(place);
  const suffix = process.platform === 'darwin' ? '.2.dylib' : '.so.2';
  symlinkSync(ccPath, join(place, `libtensorflow_cc${suffix}`));
  symlinkSync(process.execPath, join(place, `libtensorflow_framework${suffix}`));
  expect(checkRequestIds({ SHOAL_TF_DIR: place })).toMatchObject({
    status: 'warning',
    summary: expect.stringContaining('may be aborted'),
    fix: expect.stringContaining('recovers'),
  });
});

test('reports nothing if no library is installed', () => {
  expect(checkRequestIds({ SHOAL_TF_DIR: join(dir, 'nowhere') })).toBeUndefined();
});
