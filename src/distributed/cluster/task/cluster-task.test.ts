import { afterEach, describe, expect, it } from 'vitest';
import { EXIT } from '../../../base/errors/exit-codes.js';
import { AgentClient } from '../agent/agent-client.js';
import { askStatus } from '../agent/status.js';
import type { ClusterStatus } from '../agent/wire.js';
import type { Identity } from '../membership/map.js';
import { compareIdentity } from '../membership/map.js';
import { ClusterSpec } from '../spec/cluster-spec.js';
import { taskId } from '../spec/task-id.js';
import {
  DEAD_AFTER_MS,
  HEARTBEAT_MS,
  PATIENCE_MS,
  ProcessCluster,
  type TaskProcess,
} from '../testing/cluster-processes.js';
import { joinCluster } from './cluster-task.js';

const TOKEN = 'a token for tests only';
const token = TOKEN.replaceAll(' ', '-');
const ps = (index: number) => `/job:ps/task:${index}`;
const worker = (index: number) => `/job:worker/task:${index}`;

let cluster: ProcessCluster | undefined;
afterEach(async () => {
  await cluster?.endAll();
  cluster = undefined;
});

async function running(jobs: Record<string, number>, env: Record<string, string> = {}) {
  cluster = await ProcessCluster.make(jobs, env);
  const made: Record<string, TaskProcess> = {};
  for (const [job, count] of Object.entries(jobs)) {
    for (let index = 0; index < count; index++) made[`/job:${job}/task:${index}`] = cluster.start(job, index);
  }
  const { tasks } = cluster;
  const answers = await Promise.all(
    Object.values(made).map((process) => process.ask({ do: 'wait', tasks, timeoutMs: PATIENCE_MS })),
  );
  for (const answer of answers) expect(answer.error).toBeUndefined();
  return { cluster, at: (task: string) => made[task]! };
}

interface Seen {
  readonly epoch: number;
  readonly members: readonly { task: string; status: string; agentAddress: string; incarnation: number }[];
}
const seenBy = async (process: TaskProcess) => (await process.ask({ do: 'members' })).result as Seen;

describe('a cluster of processes', { timeout: 3 * PATIENCE_MS }, () => {
  it('forms in any start order, and reports which tasks are missing', async () => {
    cluster = await ProcessCluster.make({ ps: 1, worker: 2 });
    const late = cluster.start('worker', 1);
    const waiting = late.ask({ do: 'wait', tasks: cluster.tasks, timeoutMs: PATIENCE_MS });
    const { progress } = await late.line('progress', (line) => line.progress !== undefined);
    expect(progress).toContain(`${worker(1)} waits for ${ps(0)}`);
    expect(progress).toContain(worker(0));
    cluster.start('worker', 0);
    await late.line('progress', (line) => line.progress?.includes(worker(0)) === false);
    cluster.start('ps', 0);
    expect((await waiting).error).toBeUndefined();
  });

  it('ends a wait at its deadline, naming the missing tasks and the reasons', async () => {
    cluster = await ProcessCluster.make({ ps: 1, worker: 1 });
    const lonely = cluster.start('worker', 0);
    const { error, code } = await lonely.ask({
      do: 'wait',
      tasks: cluster.tasks,
      timeoutMs: 3 * HEARTBEAT_MS,
    });
    expect(code).toBe('SHOAL_TIMEOUT');
    expect(error).toMatch(/waiting for \/job:ps\/task:0 \(agent \S+ refuses connections/);
  });

  it('detects a killed process much sooner than by its silence', async () => {
    const { at } = await running({ ps: 2, worker: 2 });
    const killed = at(ps(1)).signal('SIGKILL');
    for (const task of [ps(0), worker(0), worker(1)]) {
      const lost = await at(task).event('lost', ps(1));
      expect(lost.why).toBe('refused');
      expect((lost.at - killed) / DEAD_AFTER_MS).toBeLessThan(0.5);
    }
    const killedWorker = at(worker(1)).signal('SIGKILL');
    const lost = await at(ps(0)).event('lost', worker(1));
    expect((lost.at - killedWorker) / DEAD_AFTER_MS).toBeLessThan(0.5);
  });

  it('continues with a ps replaced at another port, in a new epoch', async () => {
    const { cluster: made, at } = await running({ ps: 2, worker: 2 });
    const before = await seenBy(at(worker(1)));
    const pids = [ps(0), worker(0), worker(1)].map((task) => at(task).pid);
    const since = at(ps(1)).signal('SIGKILL');
    await at(worker(1)).event('lost', ps(1));
    const successor = made.start('ps', 1, { SHOAL_LISTEN: '127.0.0.1:0' });
    const { address } = await successor.line('up', (line) => line.up !== undefined);
    for (const task of [ps(0), worker(0), worker(1)]) {
      await at(task).event('back', ps(1), since);
      const seen = await seenBy(at(task));
      expect(seen.epoch).toBe(before.epoch + 1);
      expect(seen.members.find((member) => member.task === ps(1))).toMatchObject({
        agentAddress: address,
        status: 'alive',
      });
    }
    expect([ps(0), worker(0), worker(1)].map((task) => at(task).pid)).toEqual(pids);
    expect(at(worker(0)).running).toBe(true);
  });

  it('detects a stopped process within deadAfterMs; replaced, it exits when it resumes', async () => {
    const { cluster: made, at } = await running({ ps: 1, worker: 2 });
    const stopped = at(ps(0)).signal('SIGSTOP');
    const lost = await at(worker(1)).event('lost', ps(0));
    expect(lost.why).toBe('silent');
    expect((lost.at - stopped) / DEAD_AFTER_MS).toBeGreaterThan(0.5);
    expect((lost.at - stopped) / DEAD_AFTER_MS).toBeLessThan(3);
    const successor = made.start('ps', 0, { SHOAL_LISTEN: '127.0.0.1:0' });
    await at(worker(1)).event('back', ps(0), stopped);
    at(ps(0)).signal('SIGCONT');
    expect(await at(ps(0)).exited).toBe(EXIT.superseded);
    expect(successor.running).toBe(true);
    const { members } = await seenBy(at(worker(1)));
    expect(members.map(({ status }) => status)).toEqual(['alive', 'alive', 'alive']);
  });

  it('takes over from a running process of the same task, and both report it', async () => {
    const { cluster: made, at } = await running({ ps: 1, worker: 1 });
    const successor = made.start('ps', 0, { SHOAL_LISTEN: '127.0.0.1:0' });
    expect(await at(ps(0)).exited).toBe(EXIT.superseded);
    const notices = successor.lines.map(({ notice }) => notice).join('\n');
    expect(notices).toContain(`takes over from the process at ${made.dict.ps![0]}`);
  });

  it('readmits a process that was stopped for a while', async () => {
    const { at } = await running({ ps: 1, worker: 1 });
    const { epoch } = await seenBy(at(worker(0)));
    const stopped = at(ps(0)).signal('SIGSTOP');
    await at(worker(0)).event('lost', ps(0));
    at(ps(0)).signal('SIGCONT');
    await at(worker(0)).event('back', ps(0), stopped);
    expect((await seenBy(at(worker(0)))).epoch).toBe(epoch);
    // It was suspended itself, so it does not suspect the others.
    expect(at(ps(0)).lines.filter(({ event }) => event === 'lost')).toEqual([]);
  });

  it('does not lose tasks whose main threads are blocked for 20 s, and calls them busy', async () => {
    const blockedMs = 20_000;
    const { at } = await running({ ps: 1, worker: 2 }, { SHOAL_CLUSTER_TOKEN: token });
    const blocked = [ps(0), worker(1)];
    const answers = blocked.map((task) => at(task).ask({ do: 'block', timeoutMs: blockedMs }));
    for (const task of blocked) await at(worker(0)).event('suspected', task);
    const waiting = await at(worker(0)).ask({ do: 'wait', tasks: [ps(0)], timeoutMs: 2 * DEAD_AFTER_MS });
    expect(waiting.error).toMatch(/waiting for \/job:ps\/task:0 \(busy, main thread blocked for \d+ s\)/);
    const { members } = (await at(worker(0)).ask({ do: 'status' })).result as ClusterStatus;
    const busyMs = new Map(members.map((member) => [member.task as string, member.busyMs]));
    for (const task of blocked) expect(busyMs.get(task)).toBeGreaterThan(DEAD_AFTER_MS);
    expect(busyMs.get(worker(0))).toBeUndefined();
    await Promise.all(answers);
    for (const task of blocked) await at(worker(0)).event('trusted', task);
    for (const task of [ps(0), worker(0), worker(1)]) {
      expect(at(task).lines.filter(({ event }) => event === 'lost')).toEqual([]);
    }
  });

  it('loses a task whose main thread stays blocked, and names the reason', async () => {
    const maxBlockedMs = 2 * DEAD_AFTER_MS;
    const { at } = await running({ ps: 1, worker: 2 }, { TEST_SETTINGS: JSON.stringify({ maxBlockedMs }) });
    const since = Date.now();
    void at(worker(1))
      .ask({ do: 'block', timeoutMs: PATIENCE_MS })
      .catch(() => {});
    for (const task of [ps(0), worker(0)]) {
      const lost = await at(task).event('lost', worker(1));
      expect(lost.why).toBe('blocked');
      expect((lost.at - since) / maxBlockedMs).toBeGreaterThan(0.9);
    }
  });

  it('accepts orders of the latest chief only', async () => {
    const { cluster: made, at } = await running({ ps: 1, chief: 1 });
    const chief = '/job:chief/task:0';
    expect((await at(chief).ask({ do: 'order', to: ps(0) })).result).toBe('hello');
    const old = (await seenBy(at(ps(0)))).members.find(
      (member) => member.task === chief,
    ) as unknown as Identity;
    const stopped = at(chief).signal('SIGSTOP');
    const successor = made.start('chief', 0, { SHOAL_LISTEN: '127.0.0.1:0' });
    await at(ps(0)).event('back', chief, stopped);
    await successor.ask({ do: 'wait', tasks: [ps(0)] });
    expect((await successor.ask({ do: 'order', to: ps(0) })).result).toBe('hello');
    // What the old chief would send if it resumed in the middle of an order.
    const client = new AgentClient({ address: made.dict.ps![0]!, security: { kind: 'none' } });
    await expect(client.order('echo', old, 'undo')).rejects.toMatchObject({
      code: 'SHOAL_FORBIDDEN',
      message: expect.stringContaining('has been replaced'),
    });
    client.close();
    // It is refused before it learns of its successor: that is no error of its own.
    at(chief)
      .ask({ do: 'order', to: ps(0) })
      .catch(() => {});
    at(chief).signal('SIGCONT');
    expect(await at(chief).exited).toBe(EXIT.superseded);
    expect(at(chief).lines.filter(({ error }) => error !== undefined)).toEqual([]);
  });

  it('lets an unlisted worker join, one leave, and one be removed, and forgets it', async () => {
    const env = { TEST_SETTINGS: JSON.stringify({ forgetAfterMs: DEAD_AFTER_MS }) };
    const { cluster: made, at } = await running({ ps: 1, worker: 2 }, env);
    const dict = { ...made.dict, worker: [...made.dict.worker!, '127.0.0.1:1'] };
    const extra = new ProcessCluster(dict, made.env).start('worker', 2, { SHOAL_LISTEN: '127.0.0.1:0' });
    made.processes.push(extra);
    await at(worker(1)).event('joined', worker(2));
    await at(worker(1)).ask({ do: 'leave' });
    expect(await at(worker(1)).exited).toBe(0);
    await at(ps(0)).event('left', worker(1));
    await extra.event('left', worker(1));
    await at(worker(0)).ask({ do: 'remove', to: worker(2) });
    expect(await extra.exited).toBe(EXIT.superseded);
    await at(ps(0)).event('left', worker(2));
    for (const task of [ps(0), worker(0)]) {
      const known = async () => (await seenBy(at(task))).members.map((member) => member.task).sort();
      await expect.poll(known, { timeout: PATIENCE_MS }).toEqual([ps(0), worker(0), worker(1)]);
    }
    expect(at(ps(0)).lines.filter(({ event }) => event === 'lost')).toEqual([]);
  });

  it('rejects a task with another token, which logs the reason', async () => {
    const { cluster: made, at } = await running({ ps: 1, worker: 1 }, { SHOAL_CLUSTER_TOKEN: token });
    const stranger = made.start('worker', 0, {
      SHOAL_LISTEN: '127.0.0.1:0',
      SHOAL_CLUSTER_TOKEN: `${token}!`,
    });
    const { notice } = await stranger.line('notice', (line) => line.notice !== undefined);
    expect(notice).toContain('does not accept the credentials');
    const { members } = await seenBy(at(ps(0)));
    expect(members.map(({ status }) => status)).toEqual(['alive', 'alive']);
    expect(at(worker(0)).running).toBe(true);
  });

  it('serves its status', async () => {
    const { cluster: made } = await running({ ps: 1, worker: 1 }, { SHOAL_CLUSTER_TOKEN: token });
    const addresses = ['127.0.0.1:1', ...made.dict.ps!];
    const status = await askStatus({ addresses, security: { kind: 'token', token } });
    expect(status).toMatchObject({ cluster: 'shoal', epoch: 1, chief: worker(0), self: { task: ps(0) } });
    expect(status.members.map(({ status: health }) => health)).toEqual(['alive', 'alive']);
    await expect(askStatus({ addresses: ['127.0.0.1:1'], security: { kind: 'none' } })).rejects.toThrow(
      /no task of the cluster answers/,
    );
  });
});

describe('a task in this process', () => {
  it('reports that it listens on loopback only, leaves when its signal fires, and frees its port', async () => {
    const notices: string[] = [];
    const controller = new AbortController();
    const spec = new ClusterSpec({ ps: ['127.0.0.1:1'], worker: ['127.0.0.1:2'] });
    const options = {
      spec,
      self: taskId('ps', 0),
      security: { kind: 'none' } as const,
      listen: '127.0.0.1:0',
    };
    const task = await joinCluster({
      ...options,
      signal: controller.signal,
      onNotice: (line) => notices.push(line),
    });
    expect(notices[0]).toMatch(/no certificates and no cluster token.*127\.0\.0\.1:\d+ only/);
    const { agentAddress } = task;
    controller.abort();
    await task.leave();
    const again = await joinCluster({ ...options, listen: agentAddress });
    await again.leave();
  });

  it('opens streams to other tasks, and closes those of others when it leaves', async () => {
    const join = (job: string, spec: ClusterSpec) =>
      joinCluster({ spec, self: taskId(job, 0), security: { kind: 'none' }, listen: '127.0.0.1:0' });
    const accepting = await join('ps', new ClusterSpec({ ps: ['127.0.0.1:1'], worker: ['127.0.0.1:2'] }));
    const end = accepting.onStream('echo', (socket, { from }) => void socket.end(`${from.task} is welcome`));
    const spec = new ClusterSpec({ ps: [accepting.agentAddress], worker: ['127.0.0.1:2'] });
    const opening = await join('worker', spec);
    await opening.waitFor([taskId('ps', 0)], { timeoutMs: 10_000 });
    const { socket, head } = await opening.openStream(taskId('ps', 0), 'echo', { timeoutMs: 10_000 });
    const rest = (await socket.toArray()) as Buffer[];
    expect(Buffer.concat([head, ...rest]).toString()).toBe('/job:worker/task:0 is welcome');
    end();
    await expect(opening.openStream(taskId('ps', 0), 'echo', { timeoutMs: 10_000 })).rejects.toMatchObject({
      code: 'SHOAL_NOT_FOUND',
    });
    accepting.onStream('quiet', () => {});
    const quiet = await opening.openStream(taskId('ps', 0), 'quiet', { timeoutMs: 10_000 });
    const closed = new Promise((done) => quiet.socket.resume().once('close', done));
    await accepting.leave();
    await closed;
    await opening.leave();
  });

  it('takes the incarnation after the one that the others know, whatever its clock', async () => {
    const spec = (port: number) => new ClusterSpec({ ps: ['127.0.0.1:1'], worker: [`127.0.0.1:${port}`] });
    const none = { kind: 'none' } as const;
    const elder = await joinCluster({
      spec: spec(2),
      self: taskId('worker', 0),
      security: none,
      listen: '127.0.0.1:0',
    });
    const port = Number(elder.agentAddress.split(':')[1]);
    const join = (wall: number) =>
      joinCluster({
        spec: spec(port),
        self: taskId('ps', 0),
        security: none,
        listen: '127.0.0.1:0',
        clock: { now: () => performance.now(), wall: () => wall },
        onExit: () => {},
      });
    const first = await join(5_000_000);
    await first.waitFor([taskId('worker', 0)], { timeoutMs: 10_000 });
    await first.leave();
    const second = await join(3);
    expect(second.identity.incarnation).toBe(5_000_001);
    await second.leave();
    await elder.leave();
  });

  it('of two processes that no other task has known, the one that was started last stays', async () => {
    const identityAt = async (wall: number) => {
      const task = await joinCluster({
        spec: new ClusterSpec({ ps: ['127.0.0.1:1'], worker: ['127.0.0.1:2'] }),
        self: taskId('ps', 0),
        security: { kind: 'none' },
        listen: '127.0.0.1:0',
        clock: { now: () => performance.now(), wall: () => wall },
      });
      const { incarnation, nonce } = task.identity;
      await task.leave();
      return { incarnation, nonce };
    };
    const [former, latter] = [await identityAt(1_800_000_000_000), await identityAt(1_800_000_000_300)];
    expect(compareIdentity({ ...latter, incarnation: former.incarnation }, former)).toBeGreaterThan(0);
  });
});
