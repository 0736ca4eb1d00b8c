/**
 * The public API of the package, compared with the descriptions in test/api: names and signatures for each entry point.
 * A change of the API is part of a commit: `UPDATE_API=1 npx vitest run test/api.test.ts` updates the descriptions.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, test } from 'vitest';
import { type ApiDescription, describeApi } from './api/describe.js';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const HOW =
  'The public API changed. If that is intended, run UPDATE_API=1 npx vitest run test/api.test.ts and commit test/api.';

const { name, exports } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));

/** The name of each description, such as `shoal-train`, and the source file behind it. */
const ENTRIES: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries<{ types?: string }>(exports)
    .filter(([, target]) => target.types)
    .map(([subpath, target]) => [
      subpath === '.' ? name : `${name}-${basename(subpath)}`,
      target.types?.replace('./dist/', 'src/').replace(/\.d\.ts$/, '.ts'),
    ]),
);

function check(file: string, text: string): void {
  const path = join(ROOT, 'test/api', `${file}.txt`);
  if (process.env.UPDATE_API) writeFileSync(path, text);
  expect(text, HOW).toBe(readFileSync(path, 'utf8'));
}

describe('the public API', () => {
  let api: ApiDescription;
  beforeAll(() => {
    api = describeApi(ROOT, ENTRIES);
  });

  test.each(Object.keys(ENTRIES))('of %s matches its description', (entry) => {
    check(entry, api.texts.get(entry) ?? '');
  });

  test('uses no additional unexported types', () => {
    check('unexported-types', `${api.unexported.join('\n')}\n`);
  });
});
