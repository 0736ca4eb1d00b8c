import { copyFileSync, existsSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { defines } from '../../../tensorflow/native/library/elf.js';
import { withImageFile } from '../../../tensorflow/native/library/image-file.js';
import { library } from '../../../tensorflow/native/library/library.js';
import { locateTensorFlow } from '../../../tensorflow/native/library/locate.js';
import { symbolAddress } from './jump-slot.js';
import { GET_ID, STRONG, surveyRequestIds } from './request-id-survey.js';
import { idOnFreshThread, repairRequestIds } from './request-ids.js';

const located = locateTensorFlow();
const isLinux = process.platform === 'linux';

test('the file survey and the repair of the loaded library agree', () => {
  expect(surveyRequestIds(located).repairable).toBe(isLinux);
  library();
  expect(repairRequestIds().repaired).toBe(isLinux);
});

test.runIf(isLinux)('ids of different threads are distinct after the repair', () => {
  repairRequestIds();
  const getId = symbolAddress(located.ccPath, GET_ID) as bigint;
  const ids = new Set(Array.from({ length: 2000 }, () => idOnFreshThread(getId)));
  expect(ids.size).toBe(2000);
});

test('a library without a well-seeded generator is not changed', () => {
  const survey = surveyRequestIds({ ...located, frameworkPath: process.execPath }, 'linux');
  expect(survey).toEqual({ repairable: false, why: 'the library has no well-seeded generator' });
});

test.runIf(isLinux)('a library that does not call the function is recognized', () => {
  const survey = surveyRequestIds({ ...located, ccPath: located.frameworkPath }, 'linux');
  expect(survey).toMatchObject({ repairable: false });
});

test.runIf(isLinux)('a substring of a symbol name is not reported as defined', () => {
  const has = (symbol: string) => withImageFile(located.frameworkPath, (image) => defines(image, symbol));
  expect([has(STRONG), has(STRONG.slice(1)), has(`${STRONG}x`)]).toEqual([true, false, false]);
});

test('a truncated file is reported as truncated', () => {
  const dir = mkdtempSync(join(tmpdir(), 'shoal-elf-'));
  try {
    const file = join(dir, 'cut.so');
    writeFileSync(file, '');
    copyFileSync(existsSync('/bin/true') ? '/bin/true' : process.execPath, file);
    truncateSync(file, 80);
    expect(() => withImageFile(file, () => undefined)).toThrowError(
      expect.objectContaining({ code: 'SHOAL_LIBRARY', message: expect.stringContaining('ends at byte 80') }),
    );
  } finally {
    rmSync(dir, { recursive: true });
  }
});
