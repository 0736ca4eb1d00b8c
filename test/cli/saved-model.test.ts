/** `shoal saved-model show` and `shoal predict`, on an export by Shoal. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { tf } from '../../src/index.js';
import { Graph } from '../../src/tensorflow/graph/graph.js';
import { Session } from '../../src/tensorflow/session/session.js';
import { simpleSave } from '../../src/training/saved-model/index.js';
import { runCommand } from './run-command.js';

let root: string;
let dir: string;
beforeAll(async () => {
  root = mkdtempSync(join(tmpdir(), 'shoal-predict-'));
  dir = join(root, '1');
  using graph = new Graph();
  const { x, name, init } = graph.asDefault(() => {
    const x = tf.placeholder({ shape: [null, 2], name: 'x' });
    const name = tf.placeholder({ dtype: 'string', shape: [], name: 'name' });
    tf.variable('w', { shape: [2], initializer: [10, 100] });
    return { x, name, init: tf.globalVariablesInitializer() };
  });
  await using session = Session.open({ graph });
  await session.run(init);
  const outputs = graph.asDefault(() => ({
    y: x.mul(graph.output('w/Read/ReadVariableOp:0')),
    size: tf.raw.stringLength(name),
  }));
  await simpleSave(session, dir, { inputs: { x, name }, outputs });
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

describe('saved-model show', () => {
  test('lists tags, signatures, variables and files', async () => {
    const { stdout, code } = await runCommand('saved-model', 'show', dir);
    expect(code).toBe(0);
    expect(stdout).toMatch(/1 variable \(8 B, 1 shard\)/);
    expect(stdout).toMatch(/tags serve/);
    expect(stdout).toMatch(/serving_default +tensorflow\/serving\/predict/);
    expect(stdout).toMatch(/input +x +float32 +\[\?, 2\] +x:0/);
    expect(stdout).toMatch(/variables.variables\.index/);
  });

  test('as JSON', async () => {
    const { stdout } = await runCommand('saved-model', 'show', dir, '--json');
    const model = JSON.parse(stdout);
    expect(model.variables).toEqual({ count: 1, bytes: 8, shards: 1 });
    expect(model.graphs[0].signatures[0].inputs.x).toMatchObject({ dtype: 'float32', shape: [null, 2] });
  });

  test('of a directory without a model is an error', async () => {
    const { stderr, code } = await runCommand('saved-model', 'show', root);
    expect(code).toBe(1);
    expect(stderr).toMatch(/SHOAL_NOT_FOUND.*saved_model\.pb/);
  });
});

describe('predict', () => {
  const input = JSON.stringify({ x: [[1, 2]], name: { b64: Buffer.from('abc').toString('base64') } });

  test('prints the outputs for JSON inputs, inline or in a file', async () => {
    const plain = await runCommand('predict', dir, '--input', input);
    expect(plain.code).toBe(0);
    expect(plain.stdout).toMatch(/^y float32 \[1, 2\]: \[\[10,200\]\]$/m);
    const file = join(root, 'input.json');
    writeFileSync(file, input);
    const { stdout } = await runCommand('predict', dir, '--input', file, '--json');
    expect(JSON.parse(stdout)).toEqual({ outputs: { y: [[10, 200]], size: 3 } });
  });

  test.each([
    ['no JSON', '{"x": ', /SHOAL_INVALID_ARGUMENT: --input is not JSON/],
    ['no object', '[1]', /must be a JSON object/],
    ['a missing file', 'nothing.json', /cannot read the input nothing\.json/],
    ['a missing input', '{"x": [[1, 2]]}', /needs the input 'name'/],
    ['an unknown input', '{"x": [[1, 2]], "name": "a", "z": 1}', /no input 'z'/],
    ['a wrong shape', '{"x": [[1]], "name": "a"}', /input 'x'.*\[\?, 2\]/],
    ['a wrong type', '{"x": [["a", "b"]], "name": "a"}', /input 'x'/],
  ])('%s exits with 2', async (_, given, message) => {
    const { stderr, code } = await runCommand('predict', dir, '--input', given);
    expect(stderr).toMatch(message);
    expect(code).toBe(2);
  });

  test('an unknown signature exits with 2 and lists the existing ones', async () => {
    const { stderr, code } = await runCommand('predict', dir, '--input', input, '--signature', 'none');
    expect(stderr).toMatch(/no signature 'none'.*\n.*serving_default/);
    expect(code).toBe(2);
  });
});
