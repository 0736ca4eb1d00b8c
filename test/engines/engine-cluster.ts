/** A cluster of an engine for the conformance tests: its tasks are in this process and connected by real sockets. */
import { expect } from 'vitest';
import { choosePorts } from '../../src/app/job/launcher/ports.js';
import { ClusterServer } from '../../src/distributed/cluster/runtime/cluster-server.js';
import type { ClusterSession } from '../../src/distributed/cluster/runtime/cluster-session.js';
import { ClusterSpec } from '../../src/distributed/cluster/spec/cluster-spec.js';
import type { EngineKind } from '../../src/distributed/cluster/spec/config.js';
import { taskId } from '../../src/distributed/cluster/spec/task-id.js';
import { Graph } from '../../src/tensorflow/graph/graph.js';
import { relativeError } from '../../src/tensorflow/optimizers/testing/compare.js';
import type { Fetches } from '../../src/tensorflow/session/fetches.js';
import { Session } from '../../src/tensorflow/session/session.js';

export const ENGINES: readonly EngineKind[] = ['grpc', 'direct'];

/** The tasks of one process share its threads: none of them may count as lost while another one computes. */
const SETTINGS = { heartbeatMs: 200, deadAfterMs: 60_000 };
const WAIT_MS = 60_000;

export class EngineCluster {
  readonly engine: EngineKind;
  readonly ps: readonly ClusterServer[];
  readonly workers: readonly ClusterServer[];

  private constructor(engine: EngineKind, ps: readonly ClusterServer[], workers: readonly ClusterServer[]) {
    this.engine = engine;
    this.ps = ps;
    this.workers = workers;
  }

  static async start(engine: EngineKind, { ps = 2, workers = 2 } = {}): Promise<EngineCluster> {
    const addresses = (await choosePorts('127.0.0.1', ps + workers)).map((port) => `127.0.0.1:${port}`);
    const spec = new ClusterSpec({ ps: addresses.slice(0, ps), worker: addresses.slice(ps) });
    const startAll = (job: string, count: number) =>
      Promise.all(
        Array.from({ length: count }, (_, index) =>
          ClusterServer.create({
            spec,
            self: taskId(job, index),
            security: { kind: 'none' },
            engine,
            settings: SETTINGS,
          }),
        ),
      );
    return new EngineCluster(engine, await startAll('ps', ps), await startAll('worker', workers));
  }

  /** A session of a worker over all ps. */
  session(graph: Graph, worker = 0): ClusterSession {
    return (this.workers[worker] as ClusterServer).session(graph, { waitMs: WAIT_MS });
  }

  async close(): Promise<void> {
    await Promise.all([...this.workers, ...this.ps].map((server) => server.close()));
  }
}

/** Where the parts of a test graph are: the device of each task, or none in one process. */
export interface Devices {
  readonly ps: readonly [string, string];
  readonly worker: string;
}

export const ON_CLUSTER: Devices = { ps: ['/job:ps/task:0', '/job:ps/task:1'], worker: '/job:worker/task:0' };
export const IN_ONE_PROCESS: Devices = { ps: ['', ''], worker: '' };

/** The parts of a graph that a test runs: what comes before, and the fetches, in order. */
export interface TestRun {
  readonly before?: Fetches;
  readonly fetches: Fetches;
}

/**
 * Builds a graph twice and runs it on the cluster and in one process: the values must be the same, or differ by less
 * than `within`, relatively.
 */
export async function expectSameValues(
  cluster: EngineCluster,
  build: (devices: Devices) => TestRun,
  { runs = 1, within = 0 } = {},
): Promise<void> {
  const values = async (devices: Devices, open: (graph: Graph) => ClusterSession | Session) => {
    const graph = new Graph();
    const { before, fetches } = graph.asDefault(() => build(devices));
    await using session = open(graph);
    if (before) await session.run(before);
    const found: unknown[] = [];
    for (let i = 0; i < runs; i++) found.push(plain(await session.run(fetches)));
    return found;
  };
  const expected = await values(IN_ONE_PROCESS, (graph) => Session.open({ graph }));
  const found = await values(ON_CLUSTER, (graph) => cluster.session(graph));
  if (within === 0) expect(found).toEqual(expected);
  else expect(relativeError(found, expected), JSON.stringify([found, expected])).toBeLessThan(within);
}

/** Tensors as nested arrays, whatever the structure of the fetches. */
export function plain(value: unknown): unknown {
  if (value === undefined || value === null) return value;
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value === 'object' && 'toArray' in value) return (value as { toArray(): unknown }).toArray();
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, plain(one)]));
}
