/** Checks what other tasks report: they may be of another release. */
import * as v from 'valibot';
import { ShoalError } from '../../../base/errors/errors.js';
import { type LogPart, PAGE_EVENTS, type TaskReport } from '../state.js';

const Text = v.pipe(v.string(), v.maxLength(4000));
const Count = v.fallback(v.number(), 0);
const Maybe = v.fallback(v.nullable(v.number()), null);

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
  ownSteps: Count,
  stepsPerSecond: Maybe,
  globalStepsPerSecond: Maybe,
  loss: Maybe,
  nativeCalls: Count,
  leasesHeld: Count,
  leasedRecords: Count,
  curves: v.pipe(
    v.array(
      v.pipe(
        v.object({
          name: Text,
          at: v.array(v.number()),
          step: v.array(v.nullable(v.number())),
          value: v.array(v.number()),
        }),
        v.check(({ at, step, value }) => at.length === step.length && at.length === value.length),
      ),
    ),
    v.maxLength(200),
  ),
  events: v.pipe(
    v.array(
      v.object({
        id: Text,
        at: v.number(),
        type: v.picklist(PAGE_EVENTS),
        task: Text,
        text: v.string(),
        step: v.optional(v.number()),
        ms: v.optional(v.number()),
      }),
    ),
    v.maxLength(1000),
  ),
  files: v.pipe(v.array(v.object({ name: Text, size: v.number() })), v.maxLength(5000)),
  configuration: v.pipe(v.array(v.tuple([Text, Text])), v.maxLength(500)),
});

const LogSchema = v.object({
  lines: v.array(v.object({ number: v.number(), at: v.number(), level: Text, text: Text })),
  dropped: v.boolean(),
});

export const checkedReport = (value: unknown): TaskReport => parsed(ReportSchema, value);

export const checkedLog = (value: unknown): LogPart => parsed(LogSchema, value);

function parsed<S extends v.GenericSchema>(schema: S, value: unknown): v.InferOutput<S> {
  const result = v.safeParse(schema, value);
  if (result.success) return result.output;
  throw new ShoalError('SHOAL_UNREACHABLE', 'the answer of a task is not a report for the page', {
    hint: 'The task may be of another release.',
  });
}
