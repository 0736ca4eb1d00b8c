/** Kills the exporter at each step: no incomplete version appears, and the next export removes the leftovers. */
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Tensor } from '../../src/tensorflow/tensor/tensor.js';
import { loadSavedModel } from '../../src/training/saved-model/index.js';
import { moduleUrl, runProgram } from '../child.js';

let root: string;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'shoal-killed-'));
});
afterAll(() => rm(root, { recursive: true, force: true }));

const program = (target: string) => `
const { simpleSave } = await import('${moduleUrl('src/training/saved-model/index.ts')}');
const graph = new Graph();
const { x, y, init } = graph.asDefault(() => {
  const x = tf.placeholder({ shape: [null], name: 'x' });
  const w = tf.variable('w', { shape: [1], initializer: [3] });
  return { x, y: x.mul(w), init: tf.globalVariablesInitializer() };
});
const session = Session.open({ graph });
await session.run(init);
await simpleSave(session, ${JSON.stringify(target)}, { inputs: { x }, outputs: { y } });
await session.close();
`;

test.each([
  'export.variables.before',
  'export.variables.after',
  'export.model.before',
  'export.publish.before',
])('killed at %s', async (fault) => {
  const parent = join(root, fault);
  const target = join(parent, '1');
  const killed = await runProgram(program(target), { env: { SHOAL_FAULT: `${fault}=kill` } });
  expect(killed.code).not.toBe(0);
  const left = await readdir(parent);
  expect(left).toHaveLength(1);
  expect(left[0]).toMatch(/^\.1\.tmp-/);
  const next = await runProgram(program(target));
  expect(next.stderr).toBe('');
  expect(await readdir(parent)).toEqual(['1']);
  await using model = await loadSavedModel(target, { verify: true });
  const { y } = await model.signatures.serving_default!({ x: [2] });
  expect((y as Tensor).toArray()).toEqual([6]);
});

test('killed after the publication: the export is complete', async () => {
  const target = join(root, 'published', '1');
  await runProgram(program(target), { env: { SHOAL_FAULT: 'export.publish.after=kill' } });
  expect(await readdir(join(root, 'published'))).toEqual(['1']);
  await using model = await loadSavedModel(target, { verify: true });
  expect(Object.keys(model.signatures)).toEqual(['serving_default']);
});
