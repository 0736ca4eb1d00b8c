/** The ops around a model that a training session needs; those not given come from the graph or from defaults. */

import { invalid } from '../../../base/errors/errors.js';
import type { OrNull } from '../../../base/errors/null-options.js';
import { knownOptions, type Names } from '../../../base/errors/option-names.js';
import type { Graph } from '../../../tensorflow/graph/graph.js';
import type { Operation, Output } from '../../../tensorflow/graph/operation.js';
import type { Feeds } from '../../../tensorflow/session/feeds.js';
import { mergeAll } from '../../../tensorflow/summary/ops.js';
import { GraphKeys } from '../../../tensorflow/variables/collections.js';
import { tablesInitializer } from '../../../tensorflow/variables/initialize.js';
import type { SummaryOp } from '../hooks/summary-saver.js';
import type { SaverLike, TrainingRunner } from '../task/training-runner.js';

export interface ScaffoldOptions {
  /** Initializes the global variables. Default: their own initializers. */
  readonly initOp?: Operation;
  /** Feeds for `initOp`. Default: none. */
  readonly initFeedDict?: Feeds;
  /** Called by the chief after initialization, not after a restore. Default: none. */
  readonly initFn?: (scaffold: Scaffold, session: TrainingRunner) => void | Promise<void>;
  /** Returns the names of variables that are not ready: empty when training may start. Default: all variables. */
  readonly readyOp?: Output<'string'>;
  /** The same for the start of `localInitOp`. Default: the global variables. */
  readonly readyForLocalInitOp?: Output<'string'>;
  /** Run by every task for itself. Default: the initializers of tables. */
  readonly localInitOp?: Operation;
  /** Feeds for `localInitOp`. Default: none. */
  readonly localInitFeedDict?: Feeds;
  /** Default: all summaries of the graph, merged. */
  readonly summaryOp?: SummaryOp;
  /** Default: one for all variables of the graph. */
  readonly saver?: SaverLike;
}

/** All of them: a misspelt one is an error. */
export const SCAFFOLD_OPTIONS: Names<ScaffoldOptions> = {
  initOp: true,
  initFeedDict: true,
  initFn: true,
  readyOp: true,
  readyForLocalInitOp: true,
  localInitOp: true,
  localInitFeedDict: true,
  summaryOp: true,
  saver: true,
};

export class Scaffold {
  readonly initFn: ScaffoldOptions['initFn'];
  readonly initFeedDict: Feeds | undefined;
  readonly localInitFeedDict: Feeds | undefined;
  #initOp: Operation | undefined;
  #readyOp: Output<'string'> | undefined;
  #readyForLocalInitOp: Output<'string'> | undefined;
  #localInitOp: Operation | undefined;
  #summaryOp: SummaryOp | undefined;
  #saver: SaverLike | undefined;

  constructor(given: OrNull<ScaffoldOptions> = {}) {
    const options = knownOptions(given, SCAFFOLD_OPTIONS, 'a Scaffold');
    this.initFn = options.initFn;
    this.initFeedDict = options.initFeedDict;
    this.localInitFeedDict = options.localInitFeedDict;
    this.#initOp = options.initOp;
    this.#readyOp = options.readyOp;
    this.#readyForLocalInitOp = options.readyForLocalInitOp;
    this.#localInitOp = options.localInitOp;
    this.#summaryOp = options.summaryOp;
    this.#saver = options.saver;
  }

  get initOp(): Operation | undefined {
    return this.#initOp;
  }

  get readyOp(): Output<'string'> | undefined {
    return this.#readyOp;
  }

  get readyForLocalInitOp(): Output<'string'> | undefined {
    return this.#readyForLocalInitOp;
  }

  get localInitOp(): Operation | undefined {
    return this.#localInitOp;
  }

  get summaryOp(): SummaryOp | undefined {
    return this.#summaryOp;
  }

  get saver(): SaverLike | undefined {
    return this.#saver;
  }

  /** Fills in what was not given. Call it when the graph is complete. */
  finalize(graph: Graph, makeSaver?: (graph: Graph) => SaverLike): this {
    this.#initOp ??= only<Operation>(graph, GraphKeys.initOp, 'initOp');
    this.#readyOp ??= only<Output<'string'>>(graph, GraphKeys.readyOp, 'readyOp');
    this.#localInitOp ??= only<Operation>(graph, GraphKeys.localInitOp, 'localInitOp');
    if (!this.#localInitOp && graph.getCollection(GraphKeys.tableInitializers).length > 0) {
      this.#localInitOp = tablesInitializer(graph);
    }
    this.#summaryOp ??= mergeAll(undefined, graph);
    this.#saver ??= only<SaverLike>(graph, GraphKeys.savers, 'saver') ?? makeSaver?.(graph);
    return this;
  }
}

/** The single item of a collection, or undefined. */
function only<T>(graph: Graph, collection: string, option: string): T | undefined {
  const [item, ...others] = graph.getCollection<T>(collection);
  if (others.length > 0) {
    throw invalid(`The graph's collection '${collection}' has ${others.length + 1} items`, {
      hint: `Choose one: new Scaffold({ ${option} }).`,
    });
  }
  return item;
}
