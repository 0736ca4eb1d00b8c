import fc from 'fast-check';
import { expect, it } from 'vitest';
import {
  fileBlob,
  manifestBlob,
  manifestsPrefix,
  newAttempt,
  parseFileBlob,
  parseManifestBlob,
} from './names.js';

const part = fc.stringMatching(/^[A-Za-z0-9_.@-]{1,20}$/);
const namespace = fc.array(part, { maxLength: 3 }).map((parts) => parts.join('/'));
const attempt = fc.stringMatching(/^(\d{1,16}-\d{1,9}-)?[0-9a-f]{12}$/);
const count = fc.nat(Number.MAX_SAFE_INTEGER);

it('the name of a manifest contains sequence, step and attempt', () => {
  fc.assert(
    fc.property(namespace, count, count, attempt, (space, sequence, step, id) => {
      const name = manifestBlob(space, { sequence, step, attempt: id });
      expect(parseManifestBlob(name)).toEqual({ sequence, step, attempt: id });
      expect(name.startsWith(manifestsPrefix(space))).toBe(true);
      expect(parseFileBlob(space, name)).toBeUndefined();
    }),
  );
});

it('the name of a file contains its attempt, in its own namespace only', () => {
  fc.assert(
    fc.property(namespace, part, attempt, part, (space, prefix, id, file) => {
      const name = fileBlob(space, { prefix, attempt: id }, `${prefix}.${file}`);
      expect(parseFileBlob(space, name)).toEqual({ prefix, attempt: id });
      expect(parseFileBlob(space === '' ? 'other' : `${space}/other`, name)).toBeUndefined();
      expect(parseManifestBlob(name)).toBeUndefined();
    }),
  );
});

it('other names are ignored', () => {
  for (const name of [
    '',
    'manifests/',
    'manifests/1-2-abcd.json',
    'x/model@abcd',
    'model@0123456789ab/notes.txt',
    'backup@home/backup.tar',
    'manifests/x.json',
    'README',
  ]) {
    expect(parseManifestBlob(name)).toBeUndefined();
    expect(parseFileBlob('', name)).toBeUndefined();
  }
});

it('names sort by sequence', () => {
  const names = [9, 10, 99, 100, 12_345].map((sequence) =>
    manifestBlob('job', { sequence, step: 5, attempt: 'aaaa' }),
  );
  expect([...names].sort()).toEqual(names);
});

it('names of attempts are unique', () => {
  const all = new Set(Array.from({ length: 1000 }, () => newAttempt()));
  expect(all.size).toBe(1000);
});
