/** The page of a task: what it records, what it reports to others, and what it serves. */
import { hostname } from 'node:os';
import { readManifestAt } from '../../distributed/checkpoint/format/read-manifest.js';
import type { Pages } from '../../distributed/cluster/agent/agent-options.js';
import { parseAddress } from '../../distributed/cluster/spec/address.js';
import type { ClusterSpec } from '../../distributed/cluster/spec/cluster-spec.js';
import type { Security } from '../../distributed/cluster/spec/security.js';
import { DirectoryStore } from '../../distributed/store/disk/directory-store.js';
import type { Graph } from '../../tensorflow/graph/graph.js';
import type { Server } from '../../training/train/task/server.js';
import { describeModel } from './model/describe-model.js';
import { modelOfGraph } from './model/model-graph.js';
import { ExportList } from './record/exports.js';
import { Recorder } from './record/recorder.js';
import { Access } from './serve/access.js';
import { PageServer } from './serve/page-server.js';
import type { PageModel, TaskReport } from './state.js';
import { ClusterView, LOG, REPORT } from './view/cluster-view.js';
import { DiskFiles } from './view/disk-files.js';
import { MODEL, SUMMARIES } from './view/task-parts.js';

export interface TaskPageOptions {
  /** The name of the job, which is the folder of its checkpoints. */
  readonly job: string;
  readonly spec: ClusterSpec;
  readonly security: Security;
  /** The directory of the blobs of this task. */
  readonly blobRoot: string;
  /** Where this task exports models to. */
  readonly exportDirectories: readonly string[];
  readonly lastStep: number | null;
  /** What the page shows as the configuration. */
  readonly configuration: readonly (readonly [string, string])[];
}

const MANIFEST_MS = 2000;

export class TaskPage implements Disposable {
  readonly recorder: Recorder;
  readonly #options: TaskPageOptions;
  readonly #pages: PageServer;
  readonly #stops: (() => void)[] = [];
  #view: ClusterView | undefined;
  #graph: Graph | undefined;
  #model: Promise<PageModel> | undefined;

  constructor(options: TaskPageOptions) {
    this.#options = options;
    this.recorder = new Recorder({ exports: new ExportList(options.job, options.exportDirectories) });
    const hosts = new Set([
      hostname(),
      ...options.spec.tasks.map(({ address }) => parseAddress(address).host),
    ]);
    const access = new Access(options.security, () => hosts);
    this.#pages = new PageServer({ access, source: () => this.#view });
  }

  /** For the agent of the task. */
  get pages(): Pages {
    return this.#pages;
  }

  /** The task has started. */
  attach(server: Server): void {
    const { job, blobRoot, lastStep, configuration } = this.#options;
    const { recorder } = this;
    recorder.attach(server);
    const disk = new DiskFiles(new DirectoryStore(blobRoot), job);
    const own = async (since: number): Promise<TaskReport> => ({
      ...recorder.report(since),
      files: await disk.list(),
      exports: await recorder.exports.list(server.task.task),
      configuration,
    });
    const { task } = server;
    this.#stops.push(
      task.onRequest(REPORT, (payload) => own(numberIn(payload, 'since'))),
      task.onRequest(MODEL, () => this.#describedModel()),
      task.onRequest(SUMMARIES, () => recorder.summaries.state(task.task)),
      task.onRequest(LOG, (payload) => recorder.log.after(numberIn(payload, 'after'))),
    );
    this.#view = new ClusterView({
      server,
      own,
      ownLog: (after) => recorder.log.after(after),
      ownModel: () => this.#describedModel(),
      ownSummaries: () => recorder.summaries.state(task.task),
      namespace: job,
      lastStep,
      readManifest: (blob, place) =>
        readManifestAt(server.checkpoints.store(), blob, place, { timeoutMs: MANIFEST_MS }),
    });
  }

  /** The graph of the model, once it is complete. It is described when a page asks for it first. */
  showGraph(graph: Graph): void {
    this.#model = undefined;
    this.#graph = graph;
  }

  async #describedModel(): Promise<PageModel | null> {
    const graph = this.#graph;
    if (graph === undefined) return null;
    this.#model ??= modelOfGraph(graph).then(describeModel);
    return await this.#model;
  }

  [Symbol.dispose](): void {
    for (const stop of this.#stops) stop();
    this.#view?.[Symbol.dispose]();
    this.recorder[Symbol.dispose]();
    this.#pages[Symbol.dispose]();
  }
}

function numberIn(payload: unknown, name: string): number {
  const value = (payload as Readonly<Record<string, unknown>> | null)?.[name];
  return typeof value === 'number' && Number.isFinite(value) ? value : 0;
}
