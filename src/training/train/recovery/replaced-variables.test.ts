import { expect, it } from 'vitest';
import { taskId } from '../../../distributed/cluster/spec/task-id.js';
import { ReplacedVariables } from './replaced-variables.js';

const [PS0, PS1] = [taskId('ps', 0), taskId('ps', 1)];
const variables = [PS0, PS1, PS1].map((device, i) => ({ name: `v${i}`, device }));

function ofProcesses(nonces: readonly (string | undefined)[]) {
  let now = nonces;
  let waits = 0;
  const replaced = new ReplacedVariables({
    ps: () => [PS0, PS1].flatMap((task, i) => (now[i] === undefined ? [] : [{ task, nonce: now[i] }])),
    ownerOf: (device) => device,
    allThere: async () => {
      waits += 1;
    },
  });
  const lost = async () => (await replaced.among(variables)).map(({ name }) => name);
  const become = (...next: (string | undefined)[]) => {
    now = next;
  };
  return { replaced, lost, become, waits: () => waits };
}

it('knows nothing before all variables have had values', async () => {
  const { lost, become, waits } = ofProcesses(['a', 'b']);
  become('a', 'c');
  expect(await lost()).toEqual([]);
  expect(waits()).toBe(0);
});

it('finds the variables of a ps that is another process, until they have values again', async () => {
  const { replaced, lost, become, waits } = ofProcesses(['a', 'b']);
  replaced.complete();
  expect(await lost()).toEqual([]);
  become('a', 'c');
  expect(await lost()).toEqual(['v1', 'v2']);
  become('d', 'c');
  expect(await lost()).toEqual(['v0', 'v1', 'v2']);
  replaced.complete();
  expect(await lost()).toEqual([]);
  expect(waits()).toBe(4);
});

it('remembers the process of a ps that is not there', async () => {
  const { replaced, lost, become } = ofProcesses(['a', 'b']);
  replaced.complete();
  become('a', undefined);
  replaced.complete();
  become('a', 'c');
  expect(await lost()).toEqual(['v1', 'v2']);
});
