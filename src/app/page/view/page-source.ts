/** Where the server of the page gets its state from: a running cluster, or the directory of a job. */
import type { LogPart, PageModel, PageState, PageSummaries } from '../state.js';

export interface PageSource {
  /** The current state with all curves; it is at most a second old. */
  state(): Promise<PageState>;
  /**
   * Calls the listener with each update until the returned function is called. An update is a state with the new points
   * and events only.
   */
  watch(listener: (update: PageState) => void): () => void;
  /** The updates after a cursor; undefined if they are not kept any more. */
  updatesAfter(cursor: number): readonly PageState[] | undefined;
  /** The log of a task after a line. */
  log(task: string, after: number): Promise<LogPart>;
  /** The model; null if no task that answers has its graph. */
  model(): Promise<PageModel | null>;
  summaries(): Promise<PageSummaries>;
}
