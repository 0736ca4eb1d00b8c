import { expect, test } from 'vitest';
import { Gathering } from './gathering.js';

/** Checkpoints that record how they are gathered. */
function recorded() {
  const calls: string[] = [];
  const gather = async (mode: string, { signal }: { signal?: AbortSignal | undefined } = {}) => {
    calls.push(`${mode}${signal?.aborted ? ', stopped' : ''}`);
  };
  return { calls, checkpoints: { gather } };
}

test('the end of an interrupted run is reported once to the checkpoints, which name the command', async () => {
  const { calls, checkpoints } = recorded();
  using gathering = new Gathering();
  gathering.saved(checkpoints, 'last');
  await gathering.end(AbortSignal.abort('SIGINT'));
  await gathering.end(AbortSignal.abort('SIGINT'));
  expect(calls).toEqual(['last, stopped']);
});

test('nothing is reported if nothing should be gathered', async () => {
  const { calls, checkpoints } = recorded();
  using gathering = new Gathering();
  gathering.saved(checkpoints, 'none');
  await gathering.end(AbortSignal.abort('SIGINT'));
  expect(calls).toEqual([]);
});
