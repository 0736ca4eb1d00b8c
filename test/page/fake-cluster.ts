/** A server of the page whose cluster a test makes up. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Access } from '../../src/app/page/serve/access.js';
import { PageServer } from '../../src/app/page/serve/page-server.js';
import type { PageEvent, PageState, TaskState } from '../../src/app/page/state.js';
import type { PageSource } from '../../src/app/page/view/page-source.js';

const BEGUN = Date.now() - 600_000;

/** Points of a curve, one per second. */
function curve(name: string, count: number, valueAt: (i: number) => number) {
  const at = Array.from({ length: count }, (_, i) => BEGUN + i * 1000);
  return { name, at, step: at.map((_, i) => i * 10), value: at.map((_, i) => valueAt(i)) };
}

export function fakeTask(task: string, changes: Partial<TaskState> = {}): TaskState {
  const trains = task.includes('worker');
  return {
    ...{ task, incarnation: 12, first: 10, agentAddress: '127.0.0.1:2222', host: 'node1', pid: 4711 },
    ...{ step: trains ? 6000 : null, status: 'alive', silentMs: 120, reportAgeMs: 30 },
    report: {
      ...{ at: Date.now(), until: 0, incarnation: 12, release: '0.1.0', engine: 'direct', uptimeMs: 600_000 },
      ...{ residentBytes: 251e6, cpuSeconds: 12, sentBytes: 3e6, receivedBytes: 2e6, ownSteps: 3000 },
      ...{ stepsPerSecond: trains ? 5.2 : null, globalStepsPerSecond: trains ? 10.1 : null },
      ...{ loss: trains ? 0.25 : null, nativeCalls: 1, leasesHeld: 2, leasedRecords: 1200 },
    },
    curves: trains
      ? [
          curve('loss', 600, (i) => 1 / (1 + i / 60) + 0.02 * Math.sin(i)),
          curve('steps/s', 600, (i) => 5 + Math.sin(i / 9)),
          curve('global steps/s', 600, (i) => 10 + 2 * Math.sin(i / 9)),
        ]
      : [],
    ...changes,
  };
}

export function fakeState(changes: Partial<PageState> = {}): PageState {
  const event = (id: string, second: number, rest: Pick<PageEvent, 'type' | 'task' | 'text'>): PageEvent => ({
    id,
    at: BEGUN + second * 1000,
    ...rest,
  });
  return {
    ...{
      cluster: 'mnist',
      cursor: 1,
      now: Date.now(),
      live: true,
      epoch: 3,
      lastStep: 10_000,
      everyMs: 1000,
    },
    ...{ self: '/job:ps/task:0', chief: '/job:worker/task:0' },
    tasks: [
      fakeTask('/job:ps/task:0'),
      fakeTask('/job:ps/task:1', { host: 'node2', agentAddress: '127.0.0.1:2223' }),
      fakeTask('/job:worker/task:0', { host: 'node3' }),
      fakeTask('/job:worker/task:1', { host: 'node4' }),
    ],
    events: [
      event('a', 1, { type: 'joined', task: '/job:ps/task:1', text: 'has joined (node2)' }),
      event('b', 60, {
        type: 'saved',
        task: '/job:worker/task:0',
        text: 'saved model.ckpt-600, 8.1 MB in 0.30 s',
      }),
      event('c', 90, { type: 'lost', task: '/job:ps/task:1', text: 'is lost (node2)' }),
      event('d', 99, { type: 'recovered', task: '/job:worker/task:0', text: 'trains again after 9.0 s' }),
      event('e', 200, {
        type: 'exported',
        task: '/job:worker/task:0',
        text: 'exported to export/1 in 0.40 s',
      }),
      event('f', 210, {
        type: 'save-failed',
        task: '/job:worker/task:0',
        text: 'a save failed: the disk is full',
      }),
    ],
    checkpoints: [
      {
        ...{ name: 'model.ckpt-600', step: 600, attempt: 'a-1', savedAtMs: BEGUN, bytes: 8.1e6, tensors: 12 },
        files: [
          {
            file: 'model.ckpt-600.data-00000-of-00002',
            size: 4e6,
            copies: { 'ps/0': 'good', 'ps/1': 'missing', 'worker/0': 'damaged', 'worker/1': 'unknown' },
          },
          { file: 'model.ckpt-600.index', size: 300, copies: { 'ps/0': 'good', 'ps/1': 'good' } },
        ],
      },
    ],
    configuration: [
      ['job', 'mnist'],
      ['engine', 'direct'],
      ['train.lastStep', '10000'],
    ],
    ...changes,
  };
}

export class FakeCluster implements PageSource, AsyncDisposable {
  readonly #listeners = new Set<(update: PageState) => void>();
  readonly #pages: PageServer;
  readonly #server = createServer((request, response) => {
    if (!this.#pages.serve(request, response, () => {})) response.writeHead(404).end();
  });
  #state: PageState;
  lines: readonly string[] = ['step 6000 of 10000', 'saved model.ckpt-600'];

  constructor(state: PageState) {
    this.#state = state;
    this.#pages = new PageServer({ access: new Access({ kind: 'none' }, () => []), source: () => this });
  }

  async listen(port = 0): Promise<string> {
    await new Promise<void>((done) => this.#server.listen(port, '127.0.0.1', done));
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/page`;
  }

  get connections(): number {
    return this.#listeners.size;
  }

  async state(): Promise<PageState> {
    return this.#state;
  }

  watch(listener: (update: PageState) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  updatesAfter(cursor: number): readonly PageState[] | undefined {
    return cursor === this.#state.cursor ? [] : undefined;
  }

  async log(task: string, after: number) {
    const lines = this.lines.map((text, i) => ({
      number: i + 1,
      at: BEGUN,
      level: 'info',
      text: `${task}: ${text}`,
    }));
    return { lines: lines.filter(({ number }) => number > after), dropped: false };
  }

  /** Sends an update. */
  update(changes: Partial<PageState>): void {
    const { tasks } = this.#state;
    const quiet = tasks.map((task) => ({ ...task, curves: [] }));
    const cursor = this.#state.cursor + 1;
    this.#state = { ...this.#state, ...changes, cursor, now: Date.now() };
    for (const listener of this.#listeners) listener({ ...this.#state, tasks: changes.tasks ?? quiet });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#pages[Symbol.dispose]();
    const closed = new Promise((done) => this.#server.close(done));
    this.#server.closeAllConnections();
    await closed;
  }
}
