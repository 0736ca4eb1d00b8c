/** `shoal checkpoint inspect|verify PATH`, and the choice among the jobs of a directory. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { runCommand } from '../../../../test/cli/run-command.js';
import { described } from '../../../../test/described.js';
import { DataType } from '../../../base/proto/generated/graph_pb.js';
import { writeIndexFile } from '../../../tensorflow/formats/tensor-bundle/index-file.js';
import { dataFile, indexFile } from '../../../tensorflow/formats/tensor-bundle/naming.js';
import { BundleShardWriter } from '../../../tensorflow/formats/tensor-bundle/shard-writer.js';
import { openStore } from './open.js';

let scratch: string;

beforeEach(() => {
  scratch = mkdtempSync(join(tmpdir(), 'shoal-local-checkpoint-'));
});

afterEach(() => rmSync(scratch, { recursive: true, force: true }));

/** Writes a checkpoint with the tensor `w`. */
async function save(prefix: string): Promise<void> {
  const path = join(scratch, prefix);
  mkdirSync(dirname(path), { recursive: true });
  const chunks: Uint8Array[] = [];
  const writer = new BundleShardWriter({ write: (chunk) => void chunks.push(chunk.slice()) });
  const values = new Uint8Array(new Float32Array([1.5, 2, 3]).buffer);
  await writer.add('w', { dtype: DataType.DT_FLOAT, shape: [3] }, values);
  const { index } = await writer.finish();
  writeFileSync(dataFile(path, 0, 1), Buffer.concat(chunks));
  writeFileSync(indexFile(path), writeIndexFile(index));
}

describe('a path', () => {
  test.each([
    ['a prefix', 'logs/model.ckpt-5', 'logs/model.ckpt-5'],
    ['a file', 'logs/model.ckpt-5', 'logs/model.ckpt-5.index'],
    ['a directory with a `checkpoint` file', 'logs/model.ckpt-5', 'logs'],
    ['a SavedModel', 'export/1/variables/variables', 'export/1'],
    ['the variables of a SavedModel', 'export/1/variables/variables', 'export/1/variables'],
  ])('can be %s', async (_, prefix, path) => {
    await save(prefix);
    if (path === 'logs')
      writeFileSync(join(scratch, 'logs/checkpoint'), 'model_checkpoint_path: "model.ckpt-5"\n');
    const shown = await runCommand('checkpoint', 'inspect', join(scratch, path));
    expect(shown).toMatchObject({ code: 0, stderr: '' });
    expect(shown.stdout).toMatch(/^w +float32 +\[3\] +complete +0 +12 B$/m);
    const { stdout } = await runCommand('checkpoint', 'verify', join(scratch, path), '--json');
    expect(JSON.parse(stdout)).toMatchObject({ path: join(scratch, prefix), ok: true, problems: [] });
  });

  test('shows values of a tensor', async () => {
    await save('model');
    const { stdout } = await runCommand('checkpoint', 'inspect', join(scratch, 'model'), '--tensor', 'w');
    expect(stdout).toContain('1.5 2 3');
  });

  test('with a damaged tensor, or without a data file, fails the verification', async () => {
    await save('model');
    const path = join(scratch, 'model');
    writeFileSync(dataFile(path, 0, 1), new Uint8Array(12));
    const damaged = await runCommand('checkpoint', 'verify', path);
    expect(damaged.code).toBe(1);
    expect(damaged.stdout).toMatch(/model: damaged \(.*\)\n {2}w: /);
    rmSync(dataFile(path, 0, 1));
    const lost = await runCommand('checkpoint', 'verify', path);
    expect(lost.code).toBe(1);
    expect(lost.stdout).toContain('  model.data-00000-of-00001 is missing\n');
  });

  test('that has no checkpoint, or flags of a store, is an error', async () => {
    expect((await runCommand('checkpoint', 'inspect', join(scratch, 'absent'))).stderr).toContain(
      'There is no checkpoint at',
    );
    const { stderr, code } = await runCommand('checkpoint', 'verify', scratch, '--job', 'a');
    expect({ stderr, code }).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('--job does not apply'),
    });
  });
});

describe('the jobs of a directory', () => {
  const blobs = (job: string) => join(scratch, '.shoal', job, 'ps-0/blobs');
  const ran = (job: string) => mkdirSync(blobs(job), { recursive: true });
  const saved = (job: string) => {
    mkdirSync(join(blobs(job), job, 'manifests'), { recursive: true });
    writeFileSync(join(blobs(job), job, 'manifests/000000000001-5-abc.json'), '{}');
  };
  const open = (job?: string) => openStore({ json: false, ...(job && { job }) }, { cwd: scratch, env: {} });

  test('do not include one that never saved', async () => {
    ran('idle');
    saved('busy');
    await using store = await open();
    expect(store.label).toContain('.shoal/busy');
  });

  test('must be chosen if several saved', async () => {
    saved('one');
    saved('two');
    await expect(open()).rejects.toThrow(described('--job one or --job two'));
  });

  test('are listed if the requested one is unknown', async () => {
    saved('one');
    saved('two');
    await expect(open('three')).rejects.toThrow(
      described(/no checkpoints of job three\n.*it has checkpoints of one, two/),
    );
  });

  test('are listed by ls, which fails, if the requested one is unknown', async () => {
    saved('one');
    const { stderr, code } = await runCommand(
      'checkpoint',
      'ls',
      '--job',
      'two',
      '--dir',
      join(scratch, '.shoal/one'),
    );
    expect({ stderr, code }).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('it has checkpoints of one'),
    });
  });
});
