import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { firstLineOf, type TensorFlowError, TF_CODE_NAMES } from '../../base/errors/errors.js';
import { tf } from '../../index.js';
import { Graph } from '../graph/graph.js';
import * as raw from '../ops/generated/index.js';
import type { Fetches } from '../session/fetches.js';
import type { RunOptions } from '../session/runner.js';
import { Session } from '../session/session.js';
import { liveHandles } from './handle.js';
import { tensorFlowError } from './status.js';

describe('every TensorFlow status code', () => {
  test.each(TF_CODE_NAMES.map((name, code) => [code, name] as const).filter(([code]) => code > 0))(
    '%i becomes SHOAL_TF_%s',
    (code, name) => {
      const error = tensorFlowError(code, 'it went wrong');
      expect(error).toMatchObject({ code: `SHOAL_TF_${name}`, status: name, name: 'TensorFlowError' });
      expect(error.message).toContain(`${name}: it went wrong`);
    },
  );

  test('an unknown code becomes UNKNOWN', () => {
    expect(tensorFlowError(99, 'odd').code).toBe('SHOAL_TF_UNKNOWN');
  });
});

describe('details parsed from a message', () => {
  test('the op, the device and the task', () => {
    const text =
      'From /job:ps/replica:0/task:1:\nCould not do it\n\t [[{{node layer/MatMul}}]] on /job:ps/replica:0/task:1/device:CPU:0';
    expect(tensorFlowError(13, text)).toMatchObject({
      op: 'layer/MatMul',
      device: '/job:ps/replica:0/task:1',
      task: '/job:ps/task:1',
    });
  });

  test.each([
    [14, '', 'UNAVAILABLE: the connection to another task was lost'],
    [14, '\nAdditional GRPC error information', 'UNAVAILABLE: the connection to another task was lost'],
    [
      14,
      'From /job:ps/replica:0/task:1:\n',
      'UNAVAILABLE: the connection to another task was lost (reported by /job:ps/task:1)',
    ],
    [14, '=====\nCall failed\n=====', 'UNAVAILABLE: Call failed'],
    [
      14,
      'UNAVAILABLE: From /job:worker/replica:0/task:0:\nUNAVAILABLE: Socket closed',
      'UNAVAILABLE: Socket closed (reported by /job:worker/task:0)',
    ],
    [14, 'UNAVAILABLE: ', 'UNAVAILABLE: the connection to another task was lost'],
    [14, 'UNAVAILABLE: ABORTED: Socket closed', 'UNAVAILABLE: ABORTED: Socket closed'],
    [1, '', 'CANCELLED: TensorFlow reported no details'],
    [
      3,
      'From /job:ps/replica:0/task:1:\nbad shape',
      'INVALID_ARGUMENT: bad shape (reported by /job:ps/task:1)',
    ],
  ])('code %i, %j: the first line is never empty', (code, text, line) => {
    expect(firstLineOf(tensorFlowError(code, text))).toBe(line);
  });

  test('an error that several tasks passed on is shown once', () => {
    const label = 'Received a label value of 12\n\t [[{{node loss}}]]';
    const grpc =
      'Additional GRPC error information from remote target /job:worker/replica:0/task:1 while calling RecvTensor:\n' +
      ':UNKNOWN:Error received from peer  {grpc_message:"Received a label value of 12\\n\\t"}';
    const text = [
      '=====================',
      `INVALID_ARGUMENT: From /job:worker/replica:0/task:1:\n${label}`,
      `INVALID_ARGUMENT: From /job:ps/replica:0/task:1:\n${label}\n${grpc}\n\t [[pack]]`,
      '=====================',
    ].join('\n');
    const line = 'INVALID_ARGUMENT: Received a label value of 12 (reported by /job:worker/task:1)';
    expect(tensorFlowError(3, text).message).toBe(`${line}\n\t [[{{node loss}}]]`);
    expect(tensorFlowError(3, `${label}\n${grpc}\n\t [[pack]]`).message).toBe(
      `INVALID_ARGUMENT: ${label}\n\t [[pack]]`,
    );
    const other = 'INVALID_ARGUMENT: From /job:ps/replica:0/task:1:\nanother error';
    expect(tensorFlowError(3, `${label}\n${other}`).message).toBe(`INVALID_ARGUMENT: ${label}\n${other}`);
  });

  test('the op within a function, not the function', () => {
    expect(tensorFlowError(3, '{{function_node __inference_f_12}} {{node add}} failed').op).toBe('add');
  });

  test('none if the message has none', () => {
    const { op, device, task } = tensorFlowError(3, 'no');
    expect([op, device, task]).toEqual([undefined, undefined, undefined]);
  });

  test('the caller’s op and hint take precedence', () => {
    expect(tensorFlowError(3, '[[{{node a}}]]', { op: 'b', hint: 'try c' })).toMatchObject({
      op: 'b',
      hint: 'try c',
    });
  });

  test('the uninitialized variable, with a hint', () => {
    expect(tensorFlowError(9, 'Could not find variable w. This could mean').hint).toContain('Variable w has');
  });

  test('an unavailable or slow task', () => {
    expect(tensorFlowError(14, 'failed to connect').hint).toContain('task');
    expect(tensorFlowError(4, 'Timed out').hint).toContain('timeoutMs');
  });
});

describe('a status from TensorFlow', () => {
  let graph: Graph;
  let session: Session;
  let scratch: string;
  beforeAll(() => {
    scratch = mkdtempSync(join(tmpdir(), 'shoal-status-'));
    graph = new Graph();
    session = Session.open({ graph });
  });
  afterAll(async () => {
    await session.close();
    rmSync(scratch, { recursive: true, force: true });
  });

  async function failure(build: () => Fetches, options: RunOptions = {}): Promise<TensorFlowError> {
    const fetches = graph.asDefault(build);
    return session.run(fetches, options).then(
      () => expect.fail('the run succeeded'),
      (error: TensorFlowError) => error,
    );
  }
  const emptyQueue = () => raw.fifoQueueV2({ componentTypes: ['float32'] });
  const dequeue = (queue: ReturnType<typeof emptyQueue>, name = 'take') =>
    raw.queueDequeueV2(queue, { componentTypes: ['float32'], name });

  test('NOT_FOUND names the file and the op', async () => {
    const path = join(scratch, 'missing');
    const error = await failure(() => raw.readFile(path, { name: 'reader' }));
    expect(error).toMatchObject({ code: 'SHOAL_TF_NOT_FOUND', op: 'reader' });
    expect(error.message).toContain(path);
  });

  test('INVALID_ARGUMENT', async () => {
    const x = graph.asDefault(() => tf.placeholder({ shape: null }));
    const error = await failure(() => raw.matMul(x, x, { name: 'square' }), { feeds: [[x, [[1, 2, 3]]]] });
    expect(error).toMatchObject({ code: 'SHOAL_TF_INVALID_ARGUMENT', op: 'square' });
  });

  test('FAILED_PRECONDITION of a variable without a value has a hint to initialize it', async () => {
    const error = await failure(() => tf.variable('weights', { shape: [2] }).add(1));
    expect(error).toMatchObject({ code: 'SHOAL_TF_FAILED_PRECONDITION' });
    expect(error.hint).toContain('Variable weights has no value yet');
  });

  test('OUT_OF_RANGE at the end of a queue', async () => {
    const queue = graph.asDefault(emptyQueue);
    await session.run(graph.asDefault(() => raw.queueCloseV2(queue)));
    expect(await failure(() => dequeue(queue))).toMatchObject({ code: 'SHOAL_TF_OUT_OF_RANGE' });
  });

  test('UNIMPLEMENTED', async () => {
    const x = graph.asDefault(() => tf.placeholder({ dtype: 'string', shape: [] }));
    const error = await failure(() => tf.cast(x, 'float32'), { feeds: [[x, 'a']] });
    expect(error).toMatchObject({ code: 'SHOAL_TF_UNIMPLEMENTED' });
  });

  test('RESOURCE_EXHAUSTED', async () => {
    const error = await failure(() => raw.stage([tf.ones([100])], { memoryLimit: 1 }));
    expect(error).toMatchObject({ code: 'SHOAL_TF_RESOURCE_EXHAUSTED' });
  });

  test('DATA_LOSS', async () => {
    writeFileSync(join(scratch, 'bad.index'), 'no table at all '.repeat(8));
    const error = await failure(() =>
      raw.restoreV2(join(scratch, 'bad'), ['x'], [''], { dtypes: ['float32'] }),
    );
    expect(error).toMatchObject({ code: 'SHOAL_TF_DATA_LOSS' });
  });

  test('DEADLINE_EXCEEDED when a run takes longer than timeoutMs', async () => {
    const error = await failure(() => dequeue(emptyQueue()), { timeoutMs: 20 });
    expect(error).toMatchObject({ code: 'SHOAL_TF_DEADLINE_EXCEEDED' });
  });

  test('CANCELLED when the session is closed during a run', async () => {
    const own = Session.open({ graph });
    const waiting = own.run(graph.asDefault(() => dequeue(emptyQueue())));
    const ended = expect(waiting).rejects.toMatchObject({ code: 'SHOAL_TF_CANCELLED' });
    await new Promise((resolve) => setTimeout(resolve, 50));
    await own.close();
    await ended;
  });

  test('does not leak statuses', () => {
    expect(liveHandles()).toMatchObject({ status: 0, buffer: 0, options: 0 });
  });
});
