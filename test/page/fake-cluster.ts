/** A server of the page whose cluster a test makes up. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Access } from '../../src/app/page/serve/access.js';
import { PageServer } from '../../src/app/page/serve/page-server.js';
import type { PageEvent, PageModel, PageState, PageSummaries, TaskState } from '../../src/app/page/state.js';
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
      ...{ trafficPerSecond: task.includes('ps') ? 4e5 : 2e5, recordsPerSecond: trains ? 40 : null },
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
    runs: [],
    input: {
      ...{ epoch: 2, epochs: 10, records: 60_000, shards: 60, unleasedShards: 20, returned: 1 },
      ...{ consumed: 158_000, leases: 4, leasedRecords: 2400, holders: 2, waiting: 0 },
    },
    exports: [
      {
        ...{ version: '1795118356', task: '/job:worker/task:0', path: '/data/mnist/export/1795118356' },
        ...{ step: 5000, at: BEGUN + 200_000, ms: 400, bytes: 3.2e6 },
        publications: [
          { server: '10.0.0.8:8502', state: 'published', at: BEGUN + 201_000, text: '' },
          { server: '10.0.0.9:8502', state: 'waiting', at: BEGUN + 201_000, text: 'it does not answer' },
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

export function fakeModel(changes: Partial<PageModel> = {}): PageModel {
  const part = { ops: 40, variables: 2, bytes: 3.1e6, tasks: ['ps/0', 'ps/1', 'worker/0'] };
  const unit = (name: string, kind: 'module' | 'op' | 'variable', text: string, shape: string) => ({
    ...{ name, kind, text, shape },
  });
  return {
    ops: 358,
    modules: [
      {
        ...{ ...part, path: '', ops: 358 },
        units: [
          unit('Placeholder', 'op', 'Placeholder', '[?, 784]'),
          unit('dense1', 'module', '', '[?, 256]'),
          unit('logits', 'module', '', '[?, 10]'),
        ],
        edges: [
          [0, 1],
          [1, 2],
        ],
      },
      {
        ...{ ...part, path: 'dense1' },
        units: [
          unit('dense1/kernel', 'variable', '', '[784, 256]'),
          unit('dense1/MatMul', 'op', 'MatMul', '[?, 256]'),
        ],
        edges: [[0, 1]],
      },
      { ...part, path: 'logits', units: [], edges: [] },
    ],
    moreModules: 3,
    variables: [
      { name: 'dense1/kernel', dtype: 'float32', shape: '[784, 256]', bytes: 802_816, task: 'ps/1' },
      { name: 'logits/kernel', dtype: 'float32', shape: '[256, 10]', bytes: 10_240, task: 'ps/0' },
    ],
    moreVariables: 4,
    placement: [
      { task: 'ps/0', variables: 3, bytes: 300_000 },
      { task: 'ps/1', variables: 3, bytes: 3e6 },
    ],
    ...changes,
  };
}

export function fakeSummaries(changes: Partial<PageSummaries> = {}): PageSummaries {
  const columns = Array.from({ length: 40 }, (_, i) => {
    const width = 3 - i / 20;
    const parts = Array.from({ length: 24 }, (_, j) => Math.round(160 * Math.exp(-(((j - 11.5) / 5) ** 2))));
    return { at: BEGUN + i * 1000, step: i * 10, least: -width, most: width, mean: 0, parts };
  });
  const task = '/job:worker/task:0';
  return {
    histograms: [{ name: 'dense1/activations', task, columns }],
    texts: [{ name: 'notes', task, at: BEGUN, step: 10, text: 'a text summary' }],
    version: '1',
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
  shownModel: PageModel | null = fakeModel();
  shownSummaries = fakeSummaries();
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

  async model(): Promise<PageModel | null> {
    return this.shownModel;
  }

  async summaries(): Promise<PageSummaries> {
    return this.shownSummaries;
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
