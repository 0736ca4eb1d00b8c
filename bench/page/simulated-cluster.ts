/** The page of a cluster whose tasks are made up: the view of a task, whose requests are answered in this process. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { columns, Series } from '../../src/app/page/record/series.js';
import { Access } from '../../src/app/page/serve/access.js';
import { PageServer } from '../../src/app/page/serve/page-server.js';
import type { TaskReport } from '../../src/app/page/state.js';
import { ClusterView, type ClusterViewOptions } from '../../src/app/page/view/cluster-view.js';
import { compareTasks, type TaskId, taskId } from '../../src/distributed/cluster/spec/task-id.js';

const DAY_SECS = 24 * 3600;
const CURVES = ['loss', 'steps/s', 'global steps/s'];
/** One of so many tasks is a ps. */
const PS_EVERY = 10;

export class SimulatedCluster implements AsyncDisposable {
  readonly #view: ClusterView;
  readonly #pages: PageServer;
  readonly #server = createServer((request, response) => {
    if (!this.#pages.serve(request, response, () => {})) response.writeHead(404).end();
  });

  constructor(count: number) {
    const tasks = Array.from({ length: count }, (_, i) =>
      i % PS_EVERY === 0 ? taskId('ps', i / PS_EVERY) : taskId('worker', i - 1 - Math.floor(i / PS_EVERY)),
    ).sort(compareTasks);
    const report = reportOfADay();
    const members = tasks.map((task, i) => ({
      ...{ task, incarnation: 1_700_000_000_000 + i, first: 1_700_000_000_000, nonce: String(i) },
      ...{
        agentAddress: `10.0.${i >> 8}.${i & 255}:2222`,
        serverAddress: null,
        host: `node${i}`,
        pid: 1000 + 7 * i,
      },
      ...{ left: false, beat: i, step: 1e6 + i, status: 'alive', silentMs: (i * 7919) % 500 },
    }));
    const self = tasks[0] as TaskId;
    const known = new Map(members.map((member) => [member.task, member]));
    const task = {
      task: self,
      events: { on: () => () => {} },
      status: () => ({
        cluster: 'simulated',
        epoch: 1,
        chief: taskId('worker', 0),
        self: { task: self },
        members,
      }),
      members: () => members,
      member: (id: TaskId) => known.get(id),
      // Nothing is new after the first answer.
      request: async (id: TaskId, _name: string, { since }: { readonly since: number }) => ({
        ...report,
        incarnation: known.get(id)?.incarnation,
        ...(since > 0 && { curves: [] }),
      }),
    };
    this.#view = new ClusterView({
      server: { task } as unknown as ClusterViewOptions['server'],
      own: async () => report,
      ownLog: () => ({ lines: [], dropped: false }),
      ownModel: async () => null,
      ownSummaries: () => ({ histograms: [], texts: [], version: '' }),
      namespace: 'simulated',
      readManifest: async () => undefined,
      lastStep: 2e6,
    });
    this.#pages = new PageServer({
      access: new Access({ kind: 'none' }, () => []),
      source: () => this.#view,
    });
  }

  /** Returns the address of the page. */
  async listen(): Promise<string> {
    await new Promise<void>((done) => this.#server.listen(0, '127.0.0.1', done));
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/page`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#pages[Symbol.dispose]();
    this.#view[Symbol.dispose]();
    const closed = new Promise((done) => this.#server.close(done));
    this.#server.closeAllConnections();
    await closed;
  }
}

/** What a task reports that has trained for a day. */
function reportOfADay(): TaskReport {
  const now = Date.now();
  const begin = now - DAY_SECS * 1000;
  const curves = CURVES.map((name, i) => {
    const series = new Series();
    let noise = i + 7;
    for (let second = 0; second < DAY_SECS; second++) {
      noise = (noise * 16_807) % 2_147_483_647;
      series.add(begin + second * 1000, second * 37, Math.exp(-second / 20_000) + noise / 2 ** 36);
    }
    return columns(name, series.since(0, now + 1000));
  });
  return {
    ...{ at: now, until: now, incarnation: 1, release: '0.1.0', engine: 'direct', uptimeMs: DAY_SECS * 1000 },
    ...{
      residentBytes: 251_658_240,
      cpuSeconds: 43_210,
      sentBytes: 3.1e12,
      receivedBytes: 2.2e12,
      ownSteps: 1e6,
    },
    ...{ stepsPerSecond: 11.5, globalStepsPerSecond: 10_350, loss: 0.123, nativeCalls: 3, leasesHeld: 2 },
    ...{ trafficPerSecond: 4e6, recordsPerSecond: 1150, input: null, exports: [] },
    ...{ leasedRecords: 1e8, curves, events: [], files: [], configuration: [['job', 'simulated']] },
  };
}
