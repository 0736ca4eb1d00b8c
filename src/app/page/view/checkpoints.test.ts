import { expect, test } from 'vitest';
import type { Manifest } from '../../../distributed/checkpoint/format/manifest.js';
import { fileBlob, manifestBlob } from '../../../distributed/checkpoint/format/names.js';
import { CheckpointList, type DiskState } from './checkpoints.js';

const JOB = 'mnist';
const DATA = 'model.ckpt-5.data-00000-of-00001';
const manifest = {
  sequence: 3,
  step: 5,
  attempt: '7-3-0123456789ab',
  prefix: 'model.ckpt-5',
  savedAtMs: 12,
  tensors: 2,
  files: [{ file: DATA, size: 100, places: ['ps/0', 'worker/0', 'worker/1'] }],
} as unknown as Manifest;

const named = { name: manifestBlob(JOB, manifest), size: 10 };
const copy = (size: number) => ({ name: fileBlob(JOB, manifest, DATA), size });
const disk = (place: string, files: DiskState['files'], isCurrent = true): DiskState => ({
  place,
  files,
  isCurrent,
});

const copiesOn = async (...disks: DiskState[]) => {
  const [checkpoint] = await new CheckpointList(JOB, async () => manifest).state(disks);
  return checkpoint?.files[0]?.copies;
};

test('a copy is there, missing, of another size, or not known', async () => {
  expect(
    await copiesOn(disk('ps/0', [named, copy(100)]), disk('worker/0', []), disk('worker/1', [copy(99)])),
  ).toEqual({ 'ps/0': 'good', 'worker/0': 'missing', 'worker/1': 'damaged' });
  expect(await copiesOn(disk('ps/0', [named, copy(100)], false), disk('worker/0', [copy(100)]))).toEqual({
    'ps/0': 'unknown',
    'worker/0': 'good',
    'worker/1': 'unknown',
  });
});

test('a copy that was made after the save is shown too', async () => {
  expect(await copiesOn(disk('ps/1', [named, copy(100)]))).toMatchObject({ 'ps/1': 'good' });
});

test('a disk that may have been listed before the save is not known to lack a copy', async () => {
  const list = new CheckpointList(
    JOB,
    async () => manifest,
    () => manifest.savedAtMs + 1000,
  );
  const [checkpoint] = await list.state([disk('ps/0', [named, copy(100)]), disk('worker/0', [])]);
  expect(checkpoint?.files[0]?.copies).toMatchObject({ 'ps/0': 'good', 'worker/0': 'unknown' });
});

test('a manifest that cannot be read from one disk is read from another', async () => {
  const asked: string[] = [];
  const checkpoints = new CheckpointList(JOB, async (_, place) => {
    asked.push(place);
    return place === 'ps/1' ? manifest : undefined;
  });
  const disks = [disk('ps/1', [named]), disk('ps/0', [named])];
  expect(await checkpoints.state(disks)).toHaveLength(1);
  await checkpoints.state(disks);
  expect(asked.sort()).toEqual(['ps/0', 'ps/1']);
});
