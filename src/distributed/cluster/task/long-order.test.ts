import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ShoalError } from '../../../base/errors/errors.js';
import { ClusterSpec } from '../spec/cluster-spec.js';
import { taskId } from '../spec/task-id.js';
import { type ClusterTask, joinCluster } from './cluster-task.js';
import { giveLongOrder, onLongOrder, type WorkContext } from './long-order.js';

const CHIEF = taskId('chief', 0);
const PS = taskId('ps', 0);

async function join(self: typeof CHIEF, chief = '127.0.0.1:1'): Promise<ClusterTask> {
  return joinCluster({
    spec: new ClusterSpec({ chief: [chief], ps: ['127.0.0.1:2'] }),
    self,
    security: { kind: 'none' },
    listen: '127.0.0.1:0',
    settings: { heartbeatMs: 100, deadAfterMs: 20_000 },
    onExit: () => {},
  });
}

let chief: ClusterTask;
let ps: ClusterTask;
beforeEach(async () => {
  chief = await join(CHIEF);
  ps = await join(PS, chief.agentAddress);
  await chief.waitFor([PS], { timeoutMs: 60_000 });
  await ps.waitFor([CHIEF], { timeoutMs: 60_000 });
});
afterEach(async () => {
  await Promise.all([ps.leave({ timeoutMs: 200 }), chief.leave({ timeoutMs: 200 })]);
});

/** An order whose work ends when the test resolves it; `begun` counts its starts. */
function handled(name: string) {
  const work = { begun: 0, context: undefined as WorkContext | undefined, end: (_: unknown) => {} };
  let markBegun = () => {};
  const began = new Promise<void>((resolve) => {
    markBegun = resolve;
  });
  onLongOrder(ps, name, (_, context) => {
    work.begun += 1;
    work.context = context;
    markBegun();
    return new Promise((resolve, reject) => {
      work.end = (outcome) => (outcome instanceof Error ? reject(outcome) : resolve(outcome));
      context.signal.addEventListener('abort', () => reject(new Error('it was stopped')));
    });
  });
  return { work, began };
}

describe('a long order', () => {
  it('returns the outcome, and reports progress', async () => {
    const { work, began } = handled('count');
    const progress: number[] = [];
    const outcome = giveLongOrder(chief, PS, 'count', 'a', 1, {
      onProgress: (bytes) => progress.push(bytes),
    });
    await began;
    work.context!.onProgress(77);
    // Longer than one call waits: the chief polls again.
    const timer = setTimeout(() => work.end({ sum: 5 }), 6000);
    expect(await outcome).toEqual({ sum: 5 });
    clearTimeout(timer);
    expect(progress).toContain(77);
    expect(work.begun).toBe(1);
  });

  it('returns the error of the work with its code', async () => {
    const { work, began } = handled('fail');
    const outcome = giveLongOrder(chief, PS, 'fail', 'a', 1);
    await began;
    work.end(new ShoalError('SHOAL_NO_SPACE', 'the disk is full'));
    await expect(outcome).rejects.toMatchObject({ code: 'SHOAL_NO_SPACE' });
  });

  it('does the work once per id, however often it is requested', async () => {
    const { work, began } = handled('once');
    const all = [1, 2, 3].map(() => giveLongOrder(chief, PS, 'once', 'same', 1));
    await began;
    work.end('done');
    expect(await Promise.all(all)).toEqual(['done', 'done', 'done']);
    // The outcome is kept: an answer may have been lost.
    expect(await giveLongOrder(chief, PS, 'once', 'same', 1)).toBe('done');
    expect(work.begun).toBe(1);
  });

  it('stops the work when the chief cancels it', async () => {
    const { work, began } = handled('stop');
    const stop = new AbortController();
    const outcome = giveLongOrder(chief, PS, 'stop', 'a', 1, { signal: stop.signal });
    outcome.catch(() => {});
    await began;
    const stopped = new Promise((resolve) => work.context!.signal.addEventListener('abort', resolve));
    stop.abort(new Error('no more'));
    await expect(outcome).rejects.toThrow();
    await stopped;
  });

  it('is refused if it arrives after its cancellation', async () => {
    const { work } = handled('late');
    await chief.order(PS, 'late', { id: 'a', do: 'stop' });
    const late = chief.order(PS, 'late', { id: 'a', do: 'start', payload: 1 });
    await expect(late).rejects.toMatchObject({ code: 'SHOAL_ABORTED', task: PS });
    expect(work.begun).toBe(0);
  });

  it('remembers a bounded number of cancelled orders, the latest ones', async () => {
    const { work, began } = handled('many');
    const stop = (id: string) => chief.order(PS, 'many', { id, do: 'stop' });
    await stop('first');
    await Promise.all(Array.from({ length: 1000 }, (_, i) => stop(`${i}`)));
    await stop('last');
    const start = (id: string) => chief.order(PS, 'many', { id, do: 'start', payload: 1 });
    await expect(start('last')).rejects.toMatchObject({ code: 'SHOAL_ABORTED' });
    const forgotten = start('first');
    await began;
    work.end('done');
    expect(await forgotten).toEqual({ state: 'done', result: 'done' });
  });

  it('fails immediately when its task leaves', async () => {
    const { began } = handled('go');
    const outcome = giveLongOrder(chief, PS, 'go', 'a', 1);
    outcome.catch(() => {});
    await began;
    await ps.leave({ timeoutMs: 1000 });
    await expect(outcome).rejects.toMatchObject({ code: 'SHOAL_UNREACHABLE', task: PS });
  });

  it('is refused by a task without a handler', async () => {
    await expect(giveLongOrder(chief, PS, 'unheard', 'a', 1)).rejects.toMatchObject({
      code: 'SHOAL_NOT_FOUND',
    });
  });

  it('is accepted only from the chief', async () => {
    onLongOrder(chief, 'upwards', async () => 1);
    await expect(giveLongOrder(ps, CHIEF, 'upwards', 'a', 1)).rejects.toMatchObject({
      code: 'SHOAL_FORBIDDEN',
    });
  });
});
