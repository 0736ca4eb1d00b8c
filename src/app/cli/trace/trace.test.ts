import { expect, test } from 'vitest';
import { checkTrace } from '../../../../test/trace-events.js';
import { type TaskId, taskId } from '../../../distributed/cluster/spec/task-id.js';
import type { TaskTraceEvent, TracedStage } from '../../../distributed/engine/trace/task-trace.js';
import { alignedTasks } from './aligned.js';
import { chromeEvents } from './chrome-file.js';
import { Clocks } from './clocks.js';
import type { Collection } from './collect.js';
import { withoutOverlap } from './rows.js';

const WORKER = taskId('worker', 0);
const PS = taskId('ps', 0);

const step = (from: number, to: number): TaskTraceEvent => ({
  kind: 'span',
  row: 'steps',
  what: 'step',
  from,
  to,
});
const call = (id: number, from: number, to: number): TaskTraceEvent => ({
  ...{ kind: 'call', task: PS, call: id, run: id, stage: 'w', sentBytes: 0, receivedBytes: 2e6, from, to },
});
const stage = (id: number, from: number, to: number, more: Partial<TracedStage> = {}): TaskTraceEvent => ({
  ...{ kind: 'stage', stage: 'w', caller: WORKER, call: id, from, to },
  ...more,
});

/** The clock of the ps is ahead by a day; messages take 100 or more. */
const AHEAD = 86_400e6;

function collection(of: Readonly<Record<string, readonly TaskTraceEvent[]>>): Collection {
  const clocks = new Clocks();
  const tasks = Object.entries(of).map(([task, events]) => ({
    ...{ task: task as TaskId, host: 'node1', events, steps: 0, dropped: 0 },
    marked: task === PS ? AHEAD : 0,
  }));
  return { tasks, silent: [], clocks, end: 'steps' };
}

const checked = (collected: Collection, steps = 20) =>
  checkTrace(chromeEvents(alignedTasks(collected, steps)));

test('clocks are aligned by the fastest messages of both directions', () => {
  const clocks = new Clocks();
  for (const [there, back] of [
    [900, 150],
    [100, 4000],
    [250, 120],
  ] as const) {
    clocks.message('a', 1000, 'b', 1000 + there + 5_000_000);
    clocks.message('b', 8_000_000, 'a', 8_000_000 - 5_000_000 + back);
  }
  clocks.message('b', 0, 'c', 77);
  clocks.message('c', 77, 'b', 20);
  clocks.message('a', 0, 'c', 9_999_999);
  clocks.message('a', 0, 'silent', 5);
  const aligned = clocks.aligned('a');
  expect([...aligned.keys()]).toEqual(['a', 'b', 'c']);
  // The fastest took 100 and 120: in truth the difference is 5,000,000.
  expect(aligned.get('b')).toEqual({ ahead: 4_999_990, uncertainty: 110 });
  expect(aligned.get('c')!.ahead).toBeCloseTo(4_999_990 + 67, 6);
});

test('slices that overlap get rows of their own', () => {
  const rows = withoutOverlap([
    { from: 5, to: 9 },
    { from: 0, to: 6 },
    { from: 6, to: 7 },
    { from: 9, to: 9 },
  ]);
  expect(rows.map((row) => row.map(({ from, to }) => `${from}-${to}`))).toEqual([
    ['0-6', '6-7', '9-9'],
    ['5-9'],
  ]);
});

test('a call shows its transfers and leads to its stage, whatever the clocks say', () => {
  const { slices, arrows } = checked(
    collection({
      [WORKER]: [step(1000, 3000), call(1, 1100, 2900), call(2, 1100, 1400)],
      [PS]: [
        stage(1, AHEAD + 1200, AHEAD + 2000, { begun: AHEAD + 1300 }),
        stage(2, AHEAD + 1200, AHEAD + 1300),
      ],
    }),
  );
  const top = slices
    .filter(({ inside }) => !inside)
    .map(({ process, row, name, from, to }) => {
      return `${process.split(' ')[0]} ${row}: ${name} ${from}-${to}`;
    });
  expect(top).toEqual([
    `${WORKER} steps: step 1000-3000`,
    `${WORKER} calls to ${PS}: w 1100-2900`,
    `${WORKER} calls to ${PS} (2): w 1100-1400`,
    `${PS} stages: w 1200-2000`,
    `${PS} stages (2): w 1200-1300`,
  ]);
  expect(slices.filter(({ inside }) => inside).map(({ name, from, to }) => `${name} ${from}-${to}`)).toEqual([
    'send 1100-1200',
    'receive 2.0 MB 2000-2900',
    'send 1100-1200',
    'receive 2.0 MB 1300-1400',
    'waits for a thread 1200-1300',
  ]);
  expect(arrows.map(([from, to]) => `${from.to} ${to.to}`)).toEqual(['2900 2000', '1400 1300']);
});

test('a stage that waits says for what', () => {
  const waits = { waitedFor: 'content of FIFOQueueV2 tokens' };
  const { slices } = checked(
    collection({
      [WORKER]: [call(1, 0, 900), call(2, 0, 800)],
      [PS]: [
        stage(1, AHEAD + 10, AHEAD + 500, { ...waits, waited: AHEAD + 400, begun: AHEAD + 450 }),
        // It was cancelled before there was anything.
        stage(2, AHEAD + 10, AHEAD + 300, { ...waits, error: 'SHOAL_TF_CANCELLED' }),
      ],
    }),
  );
  const inWaits = slices.filter(({ row }) => row.startsWith('stages that wait'));
  expect(inWaits.map(({ name, from, to }) => [name, to - from])).toEqual([
    ['w', 490],
    ['waits for content of FIFOQueueV2 tokens', 390],
    ['waits for a thread', 50],
    ['w', 290],
    ['waits for content of FIFOQueueV2 tokens', 290],
  ]);
  expect(inWaits[3]!.args.error).toBe('SHOAL_TF_CANCELLED');
});

test('the window ends when every worker has made its steps', () => {
  const other = taskId('worker', 1);
  const steps = (every: number) => Array.from({ length: 50 }, (_, i) => step(i * every, (i + 1) * every));
  const aligned = { [WORKER]: steps(10), [other]: steps(40) };
  const collected = collection(aligned);
  for (const [a, b] of [
    [WORKER, other],
    [other, WORKER],
  ] as const)
    collected.clocks.message(a, 0, b, 0);
  const made = (task: TaskId) =>
    checked(collected, 5).slices.filter(({ process }) => process.startsWith(task)).length;
  expect([made(WORKER), made(other)]).toEqual([20, 5]);
});

test('a stage of an earlier connection with the same number is no end of a call', () => {
  const { arrows } = checked(
    collection({
      [WORKER]: [call(1, 100, 200), call(2, 500_000, 500_100), call(2, 900_000, 900_100)],
      [PS]: [stage(1, AHEAD + 110, AHEAD + 190), stage(2, AHEAD + 500_010, AHEAD + 500_090)],
    }),
  );
  expect(arrows.map(([from, to]) => [from.from, to.to])).toEqual([
    [100, 190],
    [500_000, 500_090],
  ]);
});
