import { once } from 'node:events';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { moduleUrl, startProgram } from '../../../test/child.js';
import type { Started } from '../../../test/setup/run-setup.js';
import { tf } from '../../index.js';
import { Graph } from '../graph/graph.js';
import { liveHandles } from '../native/handle.js';
import type { Variable } from '../variables/variable.js';
import { Session } from './session.js';

/** A TensorFlow server in a separate process, which prints its address and then serves. */
const SERVER = `
  const { create, toBinary } = await import('@bufbuild/protobuf');
  const { ServerDefSchema } = await import('${moduleUrl('src/base/proto/generated/config_pb.ts')}');
  const { C } = await import('${moduleUrl('src/tensorflow/native/library/library.ts')}');
  const { checked } = await import('${moduleUrl('src/tensorflow/native/status.ts')}');
  const bytes = toBinary(ServerDefSchema, create(ServerDefSchema, {
    cluster: { job: [{ name: 'local', tasks: { 0: '127.0.0.1:0' } }] },
    jobName: 'local', taskIndex: 0, protocol: 'grpc',
  }));
  const server = checked((status) => C().TF_NewServer(bytes, bytes.length, status));
  checked((status) => C().TF_ServerStart(server, status));
  console.log(C().TF_ServerTarget(server));
  setInterval(() => {}, 1000);`;

let server: Started;
let target: string;
let graph: Graph;
let counter: Variable<'float32'>;

beforeAll(async () => {
  server = startProgram(SERVER);
  const printed = once(server.child.stdout as NodeJS.EventEmitter, 'data') as Promise<[string]>;
  const failed = server.ended.then(({ stderr }) => {
    throw new Error(`The server exited: ${stderr}`);
  });
  [target] = await Promise.race([printed, failed]);
  target = target.trim();
  graph = new Graph();
  counter = graph.asDefault(() => tf.variable('counter', { initializer: 1 }));
});
afterAll(async () => {
  server.child.kill('SIGKILL');
  await server.ended;
});

const open = () => Session.create({ graph, target, timeoutMs: 30_000 });

describe('a session on a server', () => {
  test('runs there, and variables outlive it', async () => {
    const before = liveHandles();
    const first = await open();
    expect(first.target).toBe(target);
    await first.run(counter.initializer);
    await first.run(graph.asDefault(() => counter.assignAdd(4)));
    expect(first.devices().map(({ name }) => name)).toContain('/job:local/replica:0/task:0/device:CPU:0');
    await first.close();
    const second = await open();
    expect((await second.run(counter)).item()).toBe(5);
    await second.close();
    expect(liveHandles()).toEqual(before);
  });

  test('reports the task in errors', async () => {
    await using session = await open();
    const missing = graph.asDefault(() => tf.variable('missing', { shape: [] }));
    await expect(session.run(missing)).rejects.toMatchObject({
      code: 'SHOAL_TF_FAILED_PRECONDITION',
      task: '/job:local/task:0',
      hint: expect.stringContaining('no value yet'),
    });
  });

  // Must be last: it kills the server.
  test('whose process is killed times out, and so does its close', async () => {
    const session = await open();
    await session.run(counter);
    server.child.kill('SIGKILL');
    await server.ended;
    const ended = { code: expect.stringMatching(/^SHOAL_TF_(DEADLINE_EXCEEDED|UNAVAILABLE)$/) };
    await expect(session.run(counter, { timeoutMs: 300 })).rejects.toMatchObject(ended);
    await session.close({ timeoutMs: 300 }).catch((error: unknown) => expect(error).toMatchObject(ended));
  });
});
