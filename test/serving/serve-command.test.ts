/** `shoal serve` as a process: its command line, its lines, and its end while a request runs. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { writeHalfPlus, writeModel } from '../../src/app/serving/testing/models.js';
import { tf } from '../../src/index.js';
import { predictSignatureDef } from '../../src/training/saved-model/index.js';

const SHOAL = fileURLToPath(new URL('../../bin/shoal.cjs', import.meta.url));
const DEADLINE_MS = 60_000;

let root: string;
let child: ChildProcess | undefined;
let output = '';

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'shoal-serve-'));
  await writeHalfPlus(join(root, 'half'), 1, 2);
  await writeModel(join(root, 'slow/1'), () => {
    const steps = tf.placeholder({ dtype: 'float32', shape: [], name: 'steps' });
    const [count] = tf.whileLoop(
      (i: ReturnType<typeof tf.constant>) => tf.less(i, steps),
      (i: ReturnType<typeof tf.constant>) => [tf.add(i, 1)],
      [tf.constant(0)],
    );
    return {
      signatures: { serving_default: predictSignatureDef({ inputs: { steps }, outputs: { count: count! } }) },
    };
  });
});
afterEach(() => {
  child?.kill('SIGKILL');
});
afterAll(() => rm(root, { recursive: true, force: true }));

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  server.close();
  return port;
}

function start(...args: string[]): ChildProcess {
  output = '';
  child = spawn(process.execPath, [SHOAL, 'serve', ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
  for (const stream of [child.stdout, child.stderr])
    stream?.on('data', (chunk) => {
      output += chunk;
    });
  return child;
}

async function until(isTrue: () => boolean | Promise<boolean>, what: string): Promise<void> {
  const end = performance.now() + DEADLINE_MS;
  while (!(await isTrue())) {
    if (performance.now() > end) throw new Error(`${what}: ${output}`);
    await new Promise((tick) => setTimeout(tick, 50));
  }
}

test('a command line of tensorflow_model_server; SIGTERM lets the running request end and exits with 0', async () => {
  const port = await freePort();
  const config = join(root, 'models.config');
  await writeFile(
    config,
    `model_config_list {
      config { name: 'half' base_path: '${root}/half' model_platform: 'tensorflow' }
      config { name: 'slow' base_path: '${root}/slow' }
    }`,
  );
  const monitoring = join(root, 'monitoring.config');
  await writeFile(monitoring, 'prometheus_config { enable: true }');
  const serving = start(
    ...[`--rest_api_port=${port}`, '--port=0', `--model_config_file=${config}`, '--enable_batching=true'],
    ...[
      `--monitoring_config_file=${monitoring}`,
      '--file_system_poll_wait_seconds=1',
      '--num_load_threads=4',
    ],
  );
  const base = `http://127.0.0.1:${port}`;
  await until(() => /REST API at/.test(output), 'the server did not start');
  expect(output).toMatch(/WARN These flags have no meaning here and are ignored: --num_load_threads/);
  expect(output).toMatch(/half version 1 serves \(loaded in .* s from .*half\/1\)/);
  expect(output).toContain(`REST API at http://0.0.0.0:${port}/v1/models, metrics at /metrics`);
  expect((await fetch(`${base}/readyz`)).status).toBe(200);
  expect((await fetch(`${base}/monitoring/prometheus/metrics`)).status).toBe(200);
  const predict = (model: string, body: object) =>
    fetch(`${base}/v1/models/${model}:predict`, { method: 'POST', body: JSON.stringify(body) });
  expect(await (await predict('half', { instances: [[1]] })).json()).toEqual({ predictions: [[2.5]] });
  // About a second of work.
  const running = predict('slow', { inputs: 20_000 });
  const hasBegun = async () => /shoal_serving_running 1/.test(await (await fetch(`${base}/metrics`)).text());
  await until(hasBegun, 'the slow request did not begin');
  serving.kill('SIGTERM');
  const [answer, [code]] = await Promise.all([running, once(serving, 'exit') as Promise<[number | null]>]);
  expect(await answer.json()).toEqual({ outputs: 20_000 });
  expect(code).toBe(0);
  await expect(fetch(`${base}/readyz`)).rejects.toThrow();
});

/** All of TensorFlow Serving 2.21, but for those that the other tests pass. */
const OTHER_FLAGS = [
  ...[
    'allow_version_labels_for_unavailable_models',
    'enable_grpc_healthcheck_service',
    'enable_model_warmup=false',
  ],
  ...[
    'enable_per_model_batching_parameters',
    'enable_profiler',
    'enable_serialization_as_tensor_content=false',
  ],
  ...['enable_signature_method_name_check', 'flush_filesystem_caches=true', 'grpc_channel_arguments=a=1,b=2'],
  ...[
    'grpc_max_threads=4',
    'grpc_socket_path=/tmp/none',
    'load_retry_interval_micros=-1',
    'max_num_load_retries=0',
  ],
  ...[
    'mixed_precision=bfloat16',
    'model_config_file_poll_wait_seconds=0',
    'num_request_iterations_for_warmup=2',
  ],
  ...[
    'num_tflite_interpreters_per_pool=1',
    'num_tflite_pools=1',
    'num_unload_threads=1',
    'prefer_tflite_model=false',
  ],
  ...['per_process_gpu_memory_fraction=0.5', 'platform_config_file=none', 'rest_api_enable_cors_support'],
  ...[
    'remove_unused_fields_from_bundle_metagraph=true',
    'rest_api_num_threads=8',
    'rest_api_timeout_in_ms=30000',
  ],
  ...['saved_model_tags=serve', 'skip_initialize_tpu', 'tensorflow_inter_op_parallelism=1'],
  ...[
    'tensorflow_intra_op_parallelism=1',
    'tensorflow_session_config_file=none',
    'tensorflow_session_parallelism=2',
  ],
  ...['thread_pool_factory_config_file=none', 'use_alts_credentials=false', 'xla_cpu_compilation_enabled'],
  ...['xla_gpu_compilation_enabled', 'file_system_poll_wait_seconds=-1', 'version'],
];

test('every flag of TensorFlow Serving is accepted', async () => {
  const serving = start(...OTHER_FLAGS.map((flag) => `--${flag}`), `--model_base_path=${root}/half`);
  const [code] = (await once(serving, 'close')) as [number];
  expect({ code, output }).toEqual({ code: 0, output: expect.stringMatching(/^shoal \d+\.\d+\.\d+\n$/) });
});

test('mistakes on the command line', async () => {
  const cases: [string[], RegExp][] = [
    [['--model_nam=x', root], /--model-nam.*did you mean --model-name/is],
    [[], /no model is given/],
    [['--model_config_file=/none'], /\/none cannot be read/],
    [['--port=0', '--rest_api_port=0', root], /both --port and --rest_api_port are 0/],
  ];
  for (const [args, message] of cases) {
    const serving = start(...args);
    const [code] = (await once(serving, 'close')) as [number];
    expect(output).toMatch(message);
    expect(code).toBe(2);
  }
});
