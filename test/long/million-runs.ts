/**
 * One million runs of a small graph with feeds and fetches: the number of native handles stays constant, and so does the
 * resident memory after the warm-up. `npm run long -- million-runs [runs]`.
 */

import { tf } from '../../src/index.js';
import { Graph } from '../../src/tensorflow/graph/graph.js';
import { liveHandles } from '../../src/tensorflow/native/handle.js';
import * as raw from '../../src/tensorflow/ops/generated/index.js';
import { Session } from '../../src/tensorflow/session/session.js';

const MB = 1024 * 1024;
/** The fraction of runs before memory is compared. */
const WARM_UP = 0.1;
const ALLOWED_GROWTH_MB = 16;
const IN_FLIGHT = 8;
const REPORTS = 20;

export interface Report {
  readonly runs: number;
  readonly rssMb: number;
  readonly handles: ReturnType<typeof liveHandles>;
  readonly runsPerSecond: number;
}

export interface Outcome {
  readonly reports: readonly Report[];
  readonly growthMb: number;
  readonly handlesConstant: boolean;
}

/** Half of the runs use pool threads, half are synchronous; they include strings and a large fetch. */
export async function manyRuns(runs: number, onReport: (report: Report) => void): Promise<Outcome> {
  const graph = new Graph();
  const session = Session.open({ graph });
  const call = graph.asDefault(() => {
    const x = tf.placeholder({ shape: [null] });
    const word = tf.placeholder({ dtype: 'string', shape: [] });
    const y = tf.sum(x.mul(2).add(1));
    return session.callable({ y, upper: raw.stringUpper(word) }, [x, word]);
  });
  const large = session.callable(graph.asDefault(() => tf.fill([64, 1024], 1)));
  const word = 'a word that does not fit into twenty-two bytes';
  const reports: Report[] = [];
  const every = Math.ceil(runs / REPORTS);
  let last = performance.now();
  for (let done = 0, next = every; done < runs; ) {
    const values = Float32Array.from([done, 1]);
    const pending = Array.from({ length: IN_FLIGHT }, () => call(values, word));
    for (let i = 0; i < IN_FLIGHT; i++) call.sync(values, word);
    for (const { y } of await Promise.all(pending)) check(y.number(), 2 * (Math.fround(done) + 1) + 2);
    if (done % 1024 === 0) large.sync().dispose();
    done += 2 * IN_FLIGHT;
    if (done < next && done < runs) continue;
    next += every;
    const now = performance.now();
    const runsPerSecond = Math.round((every * 1000) / (now - last));
    last = now;
    reports.push({
      runs: done,
      rssMb: process.memoryUsage.rss() / MB,
      handles: liveHandles(),
      runsPerSecond,
    });
    onReport(reports.at(-1) as Report);
  }
  await session.close();
  return { reports, ...summarize(reports) };
}

function check(value: number, expected: number): void {
  if (Math.abs(value - expected) > Math.abs(expected) * 1e-6) {
    throw new Error(`A run returned ${value} instead of ${expected}`);
  }
}

function summarize(reports: readonly Report[]): Pick<Outcome, 'growthMb' | 'handlesConstant'> {
  const warm = reports.slice(Math.ceil(reports.length * WARM_UP));
  const first = warm[0] as Report;
  const half = Math.ceil(warm.length / 2);
  const peak = (part: readonly Report[]) => Math.max(...part.map(({ rssMb }) => rssMb));
  return {
    growthMb: peak(warm.slice(half)) - peak(warm.slice(0, half)),
    handlesConstant: warm.every(({ handles }) => JSON.stringify(handles) === JSON.stringify(first.handles)),
  };
}

export async function main(args: readonly string[]): Promise<number> {
  const runs = Number(args[0] ?? 1_000_000);
  const { growthMb, handlesConstant } = await manyRuns(
    runs,
    ({ runs: done, rssMb, handles, runsPerSecond }) => {
      console.log(`${done} runs, ${rssMb.toFixed(1)} MB, ${handles.total} handles, ${runsPerSecond} runs/s`);
    },
  );
  console.log(`growth after warm-up ${growthMb.toFixed(1)} MB, handles constant: ${handlesConstant}`);
  return handlesConstant && growthMb < ALLOWED_GROWTH_MB ? 0 : 1;
}
