import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { DirectoryStore } from '../../store/disk/directory-store.js';
import { readNote, removeNote, writeNote } from './job-note.js';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'shoal-note-'));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const place = () => ({ store: new DirectoryStore(dir), namespace: 'job', job: 'job', note: 'said' });

it('the newest version is read, and older ones are removed', async () => {
  expect(await readNote(place())).toBeUndefined();
  await writeNote(place(), { revision: 1, value: { a: 1 } });
  await writeNote(place(), { revision: 2, value: { a: 2 } });
  expect(await readNote(place())).toEqual({ revision: 2, value: { a: 2 } });
  expect(await readNote(place(), { after: 2 })).toBeUndefined();
  expect(readdirSync(join(dir, 'job/notes/job/said'))).toEqual(['000000000002.json']);
  await removeNote(place());
  expect(await readNote(place())).toBeUndefined();
});

it('a damaged version is skipped for an older one', async () => {
  await writeNote(place(), { revision: 1, value: 'good' });
  writeFileSync(join(dir, 'job/notes/job/said/000000000002.json'), '"bad"\n00000000\n');
  expect(await readNote(place())).toEqual({ revision: 1, value: 'good' });
});
