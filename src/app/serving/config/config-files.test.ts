import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readBatchingConfig, readModelConfig, readMonitoringConfig, readSslConfig } from './config-files.js';

let root: string;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'shoal-serving-config-'));
});
afterAll(() => rm(root, { recursive: true, force: true }));

async function file(text: string): Promise<string> {
  const path = join(root, 'config.txt');
  await writeFile(path, text);
  return path;
}

test('a list of models with policies, labels and comments', async () => {
  const path = await file(`
    # Two models.
    model_config_list: {
      config {
        name: 'half' "_plus_two" base_path: "/models/half"
        model_platform: "tensorflow"
        model_version_policy { specific { versions: 42 versions: 43 } }
        version_labels { key: 'stable' value: 42 }
        version_labels { key: 'canary', value: 43 };
      }
      config < name: "b" base_path: "b" model_version_policy: { latest { num_versions: 2 } } >
      config { name: "c", base_path: "/c", model_version_policy { all {} } }
    }`);
  expect(await readModelConfig(path)).toEqual([
    {
      name: 'half_plus_two',
      basePath: '/models/half',
      platform: 'tensorflow',
      policy: { kind: 'specific', versions: [42, 43] },
      labels: { stable: 42, canary: 43 },
    },
    { name: 'b', basePath: join(root, 'b'), policy: { kind: 'latest', count: 2 } },
    { name: 'c', basePath: '/c', policy: { kind: 'all' } },
  ]);
});

describe('errors name the place and what may stand there', () => {
  const cases: [string, string, RegExp][] = [
    [
      'an unknown field',
      'model_config_list {\n  config { nane: "a" } }',
      /line 2, column 12: there is no field nane.*name, base_path/,
    ],
    [
      'a missing brace',
      'model_config_list { config { name: "a"',
      /line 1, column 39: expected the name of a field or }/,
    ],
    ['a wrong type', 'model_config_list { config { name: 3 } }', /name takes a string in quotes, not 3/],
    ['an unexpected character', 'model_config_list { @', /line 1, column 21: unexpected "@"/],
    [
      'a repeated field',
      'model_config_list { config { name: "a" name: "b" } }',
      /column 40: name is given twice/,
    ],
    [
      'a model twice',
      'model_config_list { config { name: "a" base_path: "/a" } config { name: "a" base_path: "/a" } }',
      /Illegal to list model a multiple times/,
    ],
    [
      'an unknown platform',
      'model_config_list { config { name: "a" base_path: "/a" model_platform: "torch" } }',
      /requests unsupported platform torch/,
    ],
    [
      'no base path',
      'model_config_list { config { name: "a" } }',
      /Expected model a to have an absolute path/,
    ],
  ];
  test.each(cases)('%s', async (_what, text, message) => {
    await expect(readModelConfig(await file(text))).rejects.toThrow(message);
  });
});

test('the path of the metrics', async () => {
  expect(await readMonitoringConfig(await file('prometheus_config { enable: true, path: "/m" }'))).toBe('/m');
  expect(await readMonitoringConfig(await file('prometheus_config { enable: true }'))).toBe(
    '/monitoring/prometheus/metrics',
  );
  expect(await readMonitoringConfig(await file(''))).toBeUndefined();
});

test('keys and certificates, with escaped line ends', async () => {
  const path = await file('server_key: "a\\nb" server_cert: "c" client_verify: true');
  expect(await readSslConfig(path)).toEqual({ key: 'a\nb', cert: 'c', ca: undefined, verifiesClients: true });
  await expect(readSslConfig(await file('server_key: "a"'))).rejects.toThrow(
    /needs server_key and server_cert/,
  );
});

test('batching parameters, and their defaults', async () => {
  const path = await file(`
    max_batch_size { value: 8 } batch_timeout_micros { value: 2500 } max_enqueued_batches { value: 3 }
    num_batch_threads { value: 2 } allowed_batch_sizes: [ 2, 4 ] allowed_batch_sizes: 8
    pad_variable_length_inputs: true`);
  expect(await readBatchingConfig(path, 2)).toEqual({
    maxBatchSize: 8,
    timeoutMs: 2.5,
    maxEnqueuedBatches: 3,
    threads: 2,
    allowedSizes: [2, 4, 8],
    padsVariableLengths: true,
  });
  expect(await readBatchingConfig(undefined, 2)).toMatchObject({
    maxBatchSize: 1000,
    timeoutMs: 0,
    threads: 2,
  });
  await expect(
    readBatchingConfig(await file('allowed_batch_sizes: 4 max_batch_size { value: 8 }'), 2),
  ).rejects.toThrow(/must be max_batch_size, 8/);
});
