import { describe, expect, test } from 'vitest';
import {
  commonVersion,
  decodeVersions,
  encodeVersions,
  mismatchOf,
  ownVersions,
  type Speaker,
  VERSIONS,
} from './versions.js';

const speaker = (
  task: string | undefined,
  versions: Partial<Speaker['versions']>,
  release = '1.0.0',
): Speaker => ({
  task,
  release,
  versions: {
    agent: { oldest: 1, newest: 1 },
    stages: { oldest: 1, newest: 1 },
    checkpoint: { oldest: 1, newest: 2 },
    ...versions,
  },
});
const PS = '/job:ps/task:0';
const WORKER = '/job:worker/task:1';

test.each([
  [[1, 1], [1, 2], 1],
  [[1, 3], [2, 5], 3],
  [[2, 2], [1, 4], 2],
  [[1, 1], [2, 3], undefined],
])('the common version of %j and %j is %s', ([oldest, newest], [other, highest], common) => {
  const a = { oldest: oldest!, newest: newest! };
  const b = { oldest: other!, newest: highest! };
  expect([commonVersion(a, b), commonVersion(b, a)]).toEqual([common, common]);
});

describe('the header', () => {
  test('carries the task, the release and the range of each protocol', () => {
    const own = ownVersions(PS);
    expect(decodeVersions(encodeVersions(own))).toEqual(own);
    expect(own.versions).toBe(VERSIONS);
    expect(encodeVersions(ownVersions(undefined))).not.toContain('task');
  });

  test('of a later release may have fields that this one does not know; a missing protocol has version 1', () => {
    const one = { oldest: 1, newest: 1 };
    expect(decodeVersions('release=7.0.0-rc.1; agent=3-4; colour=red; task=/job:ps/task:1')).toEqual({
      task: '/job:ps/task:1',
      release: '7.0.0-rc.1',
      versions: { agent: { oldest: 3, newest: 4 }, stages: one, checkpoint: one },
    });
    expect(decodeVersions('').versions).toEqual({ agent: one, stages: one, checkpoint: one });
  });

  test.each(['agent=1', 'agent=x-2', `release=${'9'.repeat(2000)}`])('%.20s is invalid', (header) => {
    expect(() => decodeVersions(header)).toThrow(expect.objectContaining({ code: 'SHOAL_INVALID_ARGUMENT' }));
  });
});

test('a pair without a common version is an error with both tasks, releases and versions', () => {
  const newer = speaker(WORKER, { stages: { oldest: 2, newest: 3 } }, '1.2.0');
  expect(mismatchOf(newer, speaker(PS, {}))).toMatchObject({
    code: 'SHOAL_VERSION_MISMATCH',
    message: `${WORKER} (Shoal 1.2.0) speaks versions 2 to 3 of the stage protocol, ${PS} (Shoal 1.0.0) speaks version 1: they cannot work together`,
    hint: expect.stringContaining('the same release'),
  });
  expect(mismatchOf(speaker(WORKER, { agent: { oldest: 1, newest: 2 } }), speaker(PS, {}))).toBeUndefined();
});

test('a program outside of the cluster needs the agent protocol only', () => {
  const stages = { oldest: 2, newest: 2 };
  expect(mismatchOf(speaker(undefined, { stages }), speaker(PS, {}))).toBeUndefined();
  expect(mismatchOf(speaker(undefined, { agent: stages }), speaker(PS, {}))?.message).toMatch(
    /^a program outside/,
  );
});
