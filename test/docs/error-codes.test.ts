/** docs/guide/troubleshooting.md has one entry for each error code, docs/exit-codes.md one for each exit code. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { TF_CODE_NAMES } from '../../src/base/errors/errors.js';
import { EXIT } from '../../src/base/errors/exit-codes.js';
import { ROOT } from '../setup/run-setup.js';

const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');
const page = read('docs/guide/troubleshooting.md');
const entries = page
  .split(/^### /m)
  .slice(1)
  .map((text) => ({ code: /^`(\w+)`$/m.exec(text)?.[1], text }));

/** The codes exist only as a type, so they are read from its source. */
function codes(): string[] {
  const own = [...read('src/base/errors/errors.ts').matchAll(/^ {2}\| '(SHOAL_\w+)'/gm)].map(
    ([, code]) => code as string,
  );
  return [...own, ...TF_CODE_NAMES.filter((name) => name !== 'OK').map((name) => `SHOAL_TF_${name}`)].sort();
}

test('each error code has one entry, and each entry is of an error code', () => {
  expect(codes().length).toBeGreaterThan(30);
  expect(entries.map(({ code }) => code).sort()).toEqual(codes());
});

test.each(entries)('the entry of $code has a meaning, a cause and a remedy', ({ text }) => {
  for (const part of ['Meaning', 'Usual cause', 'What to do']) expect(text).toContain(`- **${part}:** `);
});

test('each exit code is in the table of exit codes, and the table has no other', () => {
  const rows = [...read('docs/exit-codes.md').matchAll(/^\| (\d+) \|/gm)].map(([, code]) => Number(code));
  expect(rows).toEqual(Object.values(EXIT));
});
