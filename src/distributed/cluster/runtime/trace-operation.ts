/** Traces of a task for an operator, who reads them as long as the trace lasts: the messages, and both sides of them. */
import * as v from 'valibot';
import { ShoalError } from '../../../base/errors/errors.js';
import type { TraceAnswer, TraceQuestion } from '../../engine/trace/task-trace.js';
import type { AgentCallOptions, AgentClient } from '../agent/agent-client.js';
import { validated } from '../agent/wire.js';
import type { Engine } from '../engines/engine.js';
import type { ClusterTask } from '../task/cluster-task.js';

const OPERATION = 'trace';

const Text = v.pipe(v.string(), v.maxLength(4000));
const Count = v.pipe(v.number(), v.safeInteger(), v.minValue(0));
const Time = v.pipe(v.number(), v.safeInteger());
const timed = { from: Time, to: Time, error: v.optional(Text) };

const QuestionSchema = v.object({
  trace: v.pipe(v.string(), v.regex(/^[\w-]{8,64}$/)),
  after: Count,
  more: v.boolean(),
});

const AnswerSchema = v.object({
  clock: Time,
  events: v.array(
    v.variant('kind', [
      v.object({
        kind: v.literal('span'),
        row: v.picklist(['steps', 'runs', 'training']),
        what: Text,
        run: v.optional(Count),
        ...timed,
      }),
      v.object({
        kind: v.literal('call'),
        ...{ task: Text, call: Count, run: Count, stage: Text, sentBytes: Count, receivedBytes: Count },
        ...timed,
      }),
      v.object({
        kind: v.literal('stage'),
        ...{ stage: Text, caller: Text, call: Count, waitedFor: v.optional(Text) },
        ...{ waited: v.optional(Time), begun: v.optional(Time) },
        ...timed,
      }),
    ]),
  ),
  next: Count,
  hasMore: v.boolean(),
  dropped: Count,
});

/** Lets operators trace this task. */
export function serveTrace(task: ClusterTask, { trace, kind }: Engine): void {
  task.onOperation(OPERATION, (payload) => {
    const question = validated(QuestionSchema, payload, 'trace');
    if (trace) return trace.read(question);
    throw new ShoalError(
      'SHOAL_UNSUPPORTED',
      `engine ${kind} has no stages to trace: TensorFlow's servers execute its steps`,
      {
        hint: 'ProfilerHook writes the trace of TensorFlow for single steps; with engine direct, shoal trace shows the whole cluster.',
      },
    );
  });
}

/** Asks a task for what it has done since the last answer. */
export async function readTrace(
  client: AgentClient,
  question: TraceQuestion,
  options: AgentCallOptions,
): Promise<TraceAnswer> {
  return validated(
    AnswerSchema,
    await client.operate(OPERATION, question, options),
    `trace of ${client.label}`,
  );
}
