/** Workers of the chief's lease server, over real agents; and how the server uses the marks of a dead worker. */
import { afterEach, describe, expect, test } from 'vitest';
import { choosePorts } from '../../../app/job/launcher/ports.js';
import { ClusterSpec } from '../../../distributed/cluster/spec/cluster-spec.js';
import { taskId } from '../../../distributed/cluster/spec/task-id.js';
import { type ClusterTask, joinCluster } from '../../../distributed/cluster/task/cluster-task.js';
import { LeaseClient } from './lease-client.js';
import { RemoteLeaseServer, serveLeases } from './lease-requests.js';
import { LeaseServer, type LeaseServerOptions, type Marks } from './lease-server.js';
import type { Lease } from './ledger.js';
import { LedgerHost } from './ledger-host.js';
import type { StepOutcome } from './step-marks.js';

const never = new AbortController().signal;
const ignore = () => {};

const hostOf = (...sizes: number[]) =>
  new LedgerHost({
    shards: sizes.map((records, i) => ({ file: `f${i}`, offset: 0, records })),
    epochs: 1,
    seed: 1,
    shuffleShards: false,
  });

function serverOf(host: LedgerHost, options: Partial<LeaseServerOptions> = {}): LeaseServer {
  const server = new LeaseServer({
    host,
    workers: () => [],
    sessionPrefix: 'a',
    signal: never,
    log: ignore,
    ...options,
  });
  server.resume();
  return server;
}

const rangeOf = (lease: Lease | undefined) => lease && `${lease.file} ${lease.from}–${lease.to}`;

describe('a remote worker', () => {
  const tasks: ClusterTask[] = [];
  afterEach(async () => {
    for (const task of tasks.splice(0)) await task.leave();
  });

  const CHIEF = taskId('worker', 0);
  const OTHER = taskId('worker', 1);

  /** A chief and a worker in one process, each with its own agent. */
  async function pair(): Promise<{ chief: ClusterTask; other: ClusterTask }> {
    const ports = await choosePorts('127.0.0.1', 2);
    const spec = new ClusterSpec({ worker: ports.map((port) => `127.0.0.1:${port}`) });
    const join = async (self: typeof CHIEF) => {
      const task = await joinCluster({ spec, self, security: { kind: 'none' } });
      tasks.push(task);
      return task;
    };
    const chief = await join(CHIEF);
    const other = await join(OTHER);
    await other.waitFor([CHIEF], { timeoutMs: 60_000 });
    await chief.waitFor([OTHER], { timeoutMs: 60_000 });
    return { chief, other };
  }

  const tenantOf = (task: ClusterTask) =>
    new LeaseClient(new RemoteLeaseServer(task, CHIEF, { log: ignore }), never);

  test('gets leases, reports steps, and is notified of the end', async () => {
    const { chief, other } = await pair();
    const host = hostOf(4, 4);
    serveLeases(chief, serverOf(host));
    const client = tenantOf(other);
    await client.begin(OTHER);
    const first = (await client.next(OTHER, [])) as Lease;
    const second = (await client.next(OTHER, [first.id])) as Lease;
    expect([first, second].map(rangeOf)).toEqual(['f0 0–4', 'f1 0–4']);
    await client.done(OTHER, first.id, 4, 0);
    await client.done(OTHER, second.id, 4, 0);
    expect(await client.next(OTHER, [])).toBeUndefined();
    expect(host.isOver).toBe(true);
  });

  test('restarts after a restore, and gets the remaining records of the snapshot', async () => {
    const { chief, other } = await pair();
    const host = hostOf(4);
    const server = serverOf(host);
    serveLeases(chief, server);
    const client = tenantOf(other);
    await client.begin(OTHER);
    const lease = (await client.next(OTHER, [])) as Lease;
    await client.done(OTHER, lease.id, 1, 0);
    const snapshot = server.snapshot();
    await client.done(OTHER, lease.id, 3, 1);
    await server.pause();
    host.restore(snapshot);
    server.resume();
    await expect(client.done(OTHER, lease.id, 4, 3)).rejects.toMatchObject({ code: 'SHOAL_TF_ABORTED' });
    await expect(client.next(OTHER, [lease.id])).rejects.toThrow(/void/);
    await client.begin(OTHER);
    expect(rangeOf(await client.next(OTHER, []))).toBe('f0 1–4');
  });

  test('retries until the chief answers', async () => {
    const { chief, other } = await pair();
    const client = tenantOf(other);
    const begun = client.begin(OTHER);
    await expect(other.request(CHIEF, 'input-begin', { waitMs: 1 })).rejects.toThrow(
      /no handler for request/,
    );
    serveLeases(chief, serverOf(hostOf(4)));
    await begun;
    expect(rangeOf(await client.next(OTHER, []))).toBe('f0 0–4');
  });

  test('ends when the chief has left', async () => {
    const { chief, other } = await pair();
    serveLeases(chief, serverOf(hostOf(4)));
    const client = tenantOf(other);
    await client.begin(OTHER);
    await chief.leave();
    expect(await client.next(OTHER, [])).toBeUndefined();
  });
});

/** A fake ps: the fence and the last steps. */
class Ps implements Marks {
  readonly closed = new Set<string>();
  last: StepOutcome = { applied: [], partial: [] };

  async open(worker: string): Promise<void> {
    this.closed.delete(worker);
  }

  async close(workers: readonly string[]): Promise<void> {
    for (const worker of workers) this.closed.add(worker);
  }

  async lastSteps(worker: string): Promise<StepOutcome> {
    expect(this.closed.has(worker)).toBe(true);
    return this.last;
  }
}

describe('the leases of a lost worker', () => {
  async function withLease(ps: Ps, rewind?: (why: string) => Promise<void>, signal = never) {
    const host = hostOf(10);
    const server = serverOf(host, { marks: ps, rewind, signal });
    const client = new LeaseClient(server, never);
    await client.begin('w0');
    const lease = (await client.next('w0', [])) as Lease;
    await client.done('w0', lease.id, 2, 0);
    return { host, server, lease };
  }

  const nextFor = async (server: LeaseServer, worker: string) => {
    const client = new LeaseClient(server, never);
    await client.begin(worker);
    return rangeOf(await client.next(worker, []));
  };

  test('continue after a step that was applied but not reported', async () => {
    const ps = new Ps();
    const { server, lease } = await withLease(ps);
    ps.last = { applied: [{ lease: lease.id, from: 2, to: 4 }], partial: [] };
    server.lost('w0', 1);
    expect(() => server.snapshot()).toThrow(/not known yet what input w0 consumed/);
    await server.settled();
    expect(server.snapshot().consumed).toBe(4);
    expect(await nextFor(server, 'w1')).toBe('f0 4–10');
  });

  test('are settled at once after a stop if no worker was lost', async () => {
    const stop = new AbortController();
    const server = serverOf(hostOf(10), { signal: stop.signal });
    stop.abort();
    await server.settled();
    expect(server.snapshot().consumed).toBe(0);
  });

  test('are in no snapshot if their outcome cannot be found out after a stop', async () => {
    const stop = new AbortController();
    const { server } = await withLease(new Ps(), undefined, stop.signal);
    stop.abort();
    server.lost('w0', 1);
    await server.settled().catch(ignore);
    expect(() => server.snapshot()).toThrow(/not known yet what input w0 consumed/);
  });

  test('are settled before its next incarnation gets one', async () => {
    const ps = new Ps();
    const { server, lease } = await withLease(ps);
    ps.last = { applied: [{ lease: lease.id, from: 2, to: 4 }], partial: [] };
    expect(await nextFor(server, 'w0')).toBe('f0 4–10');
    // A late report of the loss of the first incarnation does not affect the second.
    await server.beginIncarnation('w0', 5);
    server.lost('w0', 4);
    await server.settled();
    expect(ps.closed.has('w0')).toBe(false);
  });

  test('are reset with the model if a step was partially applied', async () => {
    const ps = new Ps();
    const reasons: string[] = [];
    const { host, server, lease } = await withLease(ps, async (why) => {
      reasons.push(why);
      await server.pause();
      host.reset();
      server.resume();
    });
    ps.last = { applied: [], partial: [{ lease: lease.id, from: 2, to: 4 }] };
    server.lost('w0', 1);
    await server.settled();
    expect(reasons).toHaveLength(1);
    expect(host.state.consumed).toBe(0);
    expect(await nextFor(server, 'w1')).toBe('f0 0–10');
  });

  test('count such a step as consumed if nothing can be restored', async () => {
    const ps = new Ps();
    const { server, lease } = await withLease(ps);
    ps.last = { applied: [], partial: [{ lease: lease.id, from: 2, to: 4 }] };
    server.lost('w0', 1);
    await server.settled();
    expect(await nextFor(server, 'w1')).toBe('f0 4–10');
  });
});
