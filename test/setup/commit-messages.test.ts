/** The rules on commit messages that `.ci/run` checks. */
import { expect, test } from 'vitest';
import { problemsOf } from '../../scripts/dev/commit-messages.mjs';

test.each([
  'Retry a save once',
  'train: feed the counters of a step',
  'store, cluster: name the task that does not answer\n\nA reader of the log could not tell.',
])('%j is accepted', (message) => {
  expect(problemsOf(message)).toEqual([]);
});

test.each([
  [`Retry ${'a save '.repeat(10)}`, /76 characters/],
  ['Retry a save once.', /full stop/],
  ['train: retried a save', /'retried' is not imperative/],
  ['Retrying a save', /not imperative/],
  ['Retry a save\nbecause disks fill up', /second line/],
])('%j is refused', (message, problem) => {
  expect(problemsOf(message).join()).toMatch(problem);
});
