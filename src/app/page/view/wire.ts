/** Checks what other tasks report: they may be of another release. */
import * as v from 'valibot';
import { ShoalError } from '../../../base/errors/errors.js';
import {
  type LogPart,
  PAGE_EVENTS,
  type PageModel,
  type PageSummaries,
  PUBLISH_STATES,
  type TaskReport,
} from '../state.js';

const Text = v.pipe(v.string(), v.maxLength(4000));
const Count = v.fallback(v.number(), 0);
const Maybe = v.fallback(v.nullable(v.number()), null);

/** A list without the elements that this release does not know. */
const known = <S extends v.GenericSchema>(schema: S, most: number) =>
  v.pipe(
    v.array(v.fallback(v.nullable(schema), null as never)),
    v.maxLength(most),
    v.transform((all) => all.filter((one) => one !== null)),
  );

const EventSchema = v.object({
  id: Text,
  at: v.number(),
  type: v.picklist(PAGE_EVENTS),
  task: Text,
  text: v.string(),
  step: v.optional(v.number()),
  ms: v.optional(v.number()),
});

const InputSchema = v.object({
  epoch: v.number(),
  epochs: v.nullable(v.number()),
  records: v.number(),
  shards: v.number(),
  unleasedShards: v.number(),
  returned: v.number(),
  consumed: v.number(),
  leases: v.number(),
  leasedRecords: v.number(),
  holders: v.number(),
  waiting: v.number(),
});

const ExportSchema = v.object({
  version: Text,
  task: Text,
  path: Text,
  step: v.number(),
  at: v.number(),
  ms: v.nullable(v.number()),
  bytes: v.nullable(v.number()),
  publications: v.pipe(
    v.array(v.object({ server: Text, state: v.picklist(PUBLISH_STATES), at: v.number(), text: Text })),
    v.maxLength(100),
  ),
});

const isNumber = (value: unknown): value is number => typeof value === 'number';
const isNumberOrNull = (value: unknown): value is number | null => value === null || isNumber(value);
/** The points of a day: a schema for each of them would take a second for 1,000 tasks. */
const listOf = <T>(isOne: (value: unknown) => value is T) =>
  v.custom<T[]>((value) => Array.isArray(value) && value.every(isOne));
const Numbers = listOf(isNumber);

const ReportSchema = v.object({
  at: v.number(),
  until: v.number(),
  incarnation: v.number(),
  release: v.fallback(Text, '?'),
  engine: v.fallback(Text, '?'),
  uptimeMs: Count,
  residentBytes: Count,
  cpuSeconds: Count,
  sentBytes: Count,
  receivedBytes: Count,
  trafficPerSecond: Maybe,
  ownSteps: Count,
  stepsPerSecond: Maybe,
  globalStepsPerSecond: Maybe,
  loss: Maybe,
  nativeCalls: Count,
  leasesHeld: Count,
  leasedRecords: Count,
  recordsPerSecond: Maybe,
  input: v.fallback(v.nullable(InputSchema), null),
  curves: v.pipe(
    v.array(
      v.pipe(
        v.object({
          name: Text,
          at: Numbers,
          step: listOf(isNumberOrNull),
          value: Numbers,
        }),
        v.check(({ at, step, value }) => at.length === step.length && at.length === value.length),
      ),
    ),
    v.maxLength(200),
  ),
  events: known(EventSchema, 1000),
  files: v.pipe(v.array(v.object({ name: Text, size: v.number() })), v.maxLength(5000)),
  exports: v.fallback(known(ExportSchema, 100), []),
  configuration: v.pipe(v.array(v.tuple([Text, Text])), v.maxLength(500)),
});

const LogSchema = v.object({
  lines: v.array(v.object({ number: v.number(), at: v.number(), level: Text, text: Text })),
  dropped: v.boolean(),
});

const ModelSchema = v.nullable(
  v.object({
    ops: v.number(),
    modules: v.pipe(
      v.array(
        v.object({
          path: Text,
          ops: v.number(),
          variables: v.number(),
          bytes: v.number(),
          tasks: v.array(Text),
          units: v.array(
            v.object({
              name: Text,
              kind: v.picklist(['module', 'variable', 'op', 'rest']),
              text: Text,
              shape: Text,
            }),
          ),
          edges: v.array(v.tuple([v.number(), v.number()])),
        }),
      ),
      v.maxLength(1000),
    ),
    moreModules: v.number(),
    variables: v.pipe(
      v.array(v.object({ name: Text, dtype: Text, shape: Text, bytes: v.number(), task: Text })),
      v.maxLength(1000),
    ),
    moreVariables: v.number(),
    placement: v.pipe(
      v.array(v.object({ task: Text, variables: v.number(), bytes: v.number() })),
      v.maxLength(10_000),
    ),
  }),
);

const SummariesSchema = v.object({
  histograms: v.pipe(
    v.array(
      v.object({
        name: Text,
        task: Text,
        columns: v.pipe(
          v.array(
            v.object({
              at: v.number(),
              step: v.number(),
              least: v.number(),
              most: v.number(),
              mean: v.number(),
              parts: v.pipe(v.array(v.number()), v.maxLength(200)),
            }),
          ),
          v.maxLength(200),
        ),
      }),
    ),
    v.maxLength(200),
  ),
  texts: v.pipe(
    v.array(v.object({ name: Text, task: Text, at: v.number(), step: v.number(), text: v.string() })),
    v.maxLength(200),
  ),
  version: Text,
});

export const checkedReport = (value: unknown): TaskReport => parsed(ReportSchema, value);

export const checkedModel = (value: unknown): PageModel | null => parsed(ModelSchema, value);

export const checkedSummaries = (value: unknown): PageSummaries => parsed(SummariesSchema, value);

export const checkedLog = (value: unknown): LogPart => parsed(LogSchema, value);

function parsed<S extends v.GenericSchema>(schema: S, value: unknown): v.InferOutput<S> {
  const result = v.safeParse(schema, value);
  if (result.success) return result.output;
  throw new ShoalError('SHOAL_UNREACHABLE', 'the answer of a task is not a report for the page', {
    hint: 'The task may be of another release.',
  });
}
