/** Events as lines of JSON, and the schema that describes them. */
import { expect, test } from 'vitest';
import { EVENT_SCHEMA, expectEvent } from '../../../test/cli/event-schema.js';
import { eventLine, eventLog, eventOf, jsonNumber, parseEventLine } from './events.js';
import type { JobEvent, JobEventData, JobEventFields, JobEventName, TrialReport } from './job-event.js';

type Complete<T> = { readonly [K in keyof T]-?: Exclude<T[K], undefined> };

const TRIAL: Complete<TrialReport> = {
  trial: 'rate=0.1',
  params: { rate: 0.1, name: 'a', wide: true },
  state: 'failed',
  dir: '/tmp/sweep/rate=0.1',
  starts: 2,
  step: 7,
  loss: Number.NaN,
  metrics: { auc: 0.5 },
  outputs: { w: [1, 2] },
  exported: '/tmp/export/1',
  seconds: 1.5,
  exitCode: null,
  error: { code: 'SHOAL_NAN', message: 'diverged' },
};

/** Each event with all its fields. */
const ALL: { readonly [K in JobEventName]: Complete<JobEventFields[K]> } = {
  start: { job: 'line', step: 0, lastStep: 10 },
  step: { step: 1, lastStep: 10, stepsPerSecond: 2.5, loss: Number.POSITIVE_INFINITY, outputs: { y: 1n } },
  save: { step: 1, path: '/tmp/model.ckpt-1', seconds: 0.1 },
  restore: { step: 1, checkpoint: 'model.ckpt-1', bytes: 8 },
  recovery: {
    step: 1,
    seconds: 0.5,
    mode: 'exact',
    lost: ['ps 0'],
    restored: {
      checkpoint: 'model.ckpt-1',
      step: 1,
      places: ['ps/1'],
      tasks: ['ps/0'],
      steps: 3,
      isRepeated: true,
    },
  },
  evaluation: { step: 1, metrics: { auc: Number.NaN } },
  export: { step: 1, version: '1', path: '/tmp/export/1', metric: { name: 'auc', value: 0.5 } },
  earlyStop: { reason: 'noImprovement', step: 9, metric: 'auc', best: { value: 1, step: 3 } },
  end: {
    step: 10,
    ownSteps: 10,
    reason: 'lastStep',
    loss: 0.1,
    evaluation: { auc: 1 },
    outputs: { w: [1] },
    exported: '/tmp/export/1',
  },
  taskStarted: { member: 'ps 0', pid: 12, address: '127.0.0.1:1' },
  taskEnded: { member: 'ps 0', pid: 12, code: null, signal: 'SIGKILL' },
  taskRestarted: { member: 'ps 0', restarts: 1, why: 'was killed by SIGKILL' },
  taskLost: { member: 'ps 0', why: 'silent' },
  taskReturned: { member: 'ps 0', isNewProcess: true },
  progress: { step: 1, lastStep: 10, stepsPerSecond: 1, alive: 2, tasks: 3 },
  error: { code: 'SHOAL_CONFIG', hint: 'set it', at: 'job.ts:1', stack: 'Error\n    at job.ts:1' },
  trial: TRIAL,
  sweep: { metric: 'loss', mode: 'min', best: 'rate=0.1', trials: [TRIAL] },
  log: {},
};

const HEADER = { task: 'worker 0', level: 'info', message: 'a line' } as const;
const eventNamed = (event: JobEventName): JobEvent =>
  eventOf({ event, ...ALL[event] } as JobEventData, HEADER);

test.each(Object.keys(ALL) as JobEventName[])(
  'the schema describes all fields of %s, and no others',
  (name) => {
    expectEvent(JSON.parse(eventLine(eventNamed(name))));
    const described = EVENT_SCHEMA.oneOf.find(
      (one: { properties: { event: { const: string } } }) => one.properties.event.const === name,
    );
    const { trial, ...own } = { trial: undefined, ...ALL[name] };
    expect(Object.keys(described.properties).sort()).toEqual(['event', ...Object.keys(own)].sort());
  },
);

test('the schema has no other events', () => {
  const names = EVENT_SCHEMA.oneOf.map(
    (one: { properties: { event: { const: string } } }) => one.properties.event.const,
  );
  expect(names.sort()).toEqual(Object.keys(ALL).sort());
});

test('numbers that JSON does not have are strings', () => {
  const event = eventNamed('step');
  expect(JSON.parse(eventLine(event))).toMatchObject({ loss: 'Infinity', outputs: { y: 1 } });
  expect([jsonNumber('NaN'), jsonNumber('-Infinity'), jsonNumber(2), jsonNumber('2')]).toEqual([
    Number.NaN,
    Number.NEGATIVE_INFINITY,
    2,
    undefined,
  ]);
});

test('an event is recognized in a line, and nothing else is', () => {
  const line = eventLine(eventNamed('save'));
  expect(parseEventLine(line)).toMatchObject({ event: 'save', step: 1 });
  for (const other of ['{"event":"save"}', line.slice(0, -1), '{"a":1}', 'saved', ''])
    expect(parseEventLine(other)).toBeUndefined();
});

test('the level drops lines without data only', () => {
  const events: JobEvent[] = [];
  const log = eventLog((event) => events.push(event), 'ps 0', 'warn');
  log('one');
  log('two', 'error');
  log('three', 'debug', { event: 'taskLost', member: 'ps 1', why: 'silent' });
  expect(events).toMatchObject([
    { event: 'log', level: 'error', message: 'two', task: 'ps 0' },
    { event: 'taskLost', level: 'debug', message: 'three', member: 'ps 1' },
  ]);
});
