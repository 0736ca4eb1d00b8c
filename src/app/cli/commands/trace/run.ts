/** `shoal trace`: records what the tasks of a running cluster do and writes it for Perfetto. */
import { constants } from 'node:fs';
import { access, writeFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { messageOf, ShoalError } from '../../../../base/errors/errors.js';
import { packageVersion } from '../../../../base/files/package.js';
import { bytes } from '../../../../base/text/format.js';
import { askStatus } from '../../../../distributed/cluster/agent/status.js';
import { trains } from '../../../../distributed/cluster/spec/task-id.js';
import { stopSignals } from '../../../job/launcher/stop-signals.js';
import type { ShoalContext } from '../../context.js';
import { findCluster } from '../../job/find-cluster.js';
import { type AlignedTask, alignedTasks } from '../../trace/aligned.js';
import { type ChromeEvent, chromeEvents } from '../../trace/chrome-file.js';
import { type Collection, collectTrace } from '../../trace/collect.js';
import type { TraceFlags } from './command.js';

export async function runTrace(this: ShoalContext, flags: TraceFlags): Promise<void> {
  const { steps, timeout } = flags;
  const out = resolve(flags.out);
  await checked(out, access(dirname(out), constants.W_OK));
  const { addresses, security } = findCluster({ ...flags, env: process.env, cwd: process.cwd() });
  const signals = stopSignals(this.outputClosed);
  try {
    const status = await askStatus({ addresses, security, signal: signals.stop });
    const timeoutMs = timeout * 1000;
    const collection = await collectTrace({ status, security, steps, timeoutMs, stop: signals.stop });
    for (const line of warningsOf(collection, flags)) this.process.stderr.write(`${line}\n`);
    const tasks = alignedTasks(collection, steps);
    await checked(out, writeFile(out, chunksOf(chromeEvents(tasks), headOf(status.cluster, collection))));
    this.process.stdout.write(`${summaryOf(flags.out, tasks)}\n`);
  } finally {
    signals.dispose();
  }
}

async function checked(out: string, writing: Promise<void>): Promise<void> {
  try {
    await writing;
  } catch (cause) {
    throw new ShoalError('SHOAL_INVALID_ARGUMENT', `${out} cannot be written: ${messageOf(cause)}`, {
      cause,
      hint: 'Choose another file with --out.',
    });
  }
}

function warningsOf({ tasks, silent, end }: Collection, { steps, timeout }: TraceFlags): readonly string[] {
  const behind = tasks.filter((task) => trains(task.task) && task.steps < steps);
  const made = behind.map((task) => `${task.task} ${task.steps}`).join(', ');
  const reasons = {
    steps: undefined,
    time: `after ${timeout} s`,
    stopped: 'when the trace was stopped',
    full: 'when the trace was full',
  };
  return [
    ...silent.map(({ task, why }) => `${task} is not in the trace, or not until its end: ${why}`),
    ...tasks
      .filter(({ dropped }) => dropped > 0)
      .map(({ task, dropped }) => `${task} did more than was read in time: ${dropped} events are missing`),
    ...(reasons[end] && behind.length > 0
      ? [`not every worker had made ${steps} steps ${reasons[end]}: ${made}`]
      : []),
  ];
}

const headOf = (cluster: string, { silent }: Collection) => ({
  cluster,
  release: packageVersion(),
  silent: Object.fromEntries(silent.map(({ task, why }) => [task, why])),
});

const EVENTS_PER_CHUNK = 1000;

/** The file in parts: it may be longer than a string can be. */
function* chunksOf(events: readonly ChromeEvent[], otherData: object): Iterable<string> {
  yield `{"displayTimeUnit":"ms","otherData":${JSON.stringify(otherData)},"traceEvents":[\n`;
  for (let at = 0; at < events.length; at += EVENTS_PER_CHUNK) {
    const lines = events.slice(at, at + EVENTS_PER_CHUNK).map((event) => JSON.stringify(event));
    yield `${at === 0 ? '' : ',\n'}${lines.join(',\n')}`;
  }
  yield '\n]}\n';
}

function summaryOf(out: string, tasks: readonly AlignedTask[]): string {
  const steps = tasks.flatMap(({ spans }) => spans.filter(({ row }) => row === 'steps')).length;
  const calls = tasks.flatMap((task) => task.calls);
  const sent = calls.reduce((sum, { sentBytes, receivedBytes }) => sum + sentBytes + receivedBytes, 0);
  const exact = Math.max(0, ...tasks.map(({ uncertainty }) => uncertainty)) / 1000;
  return (
    `wrote ${out}: ${tasks.length} tasks, ${steps} steps, ${calls.length} calls between tasks with ${bytes(sent)} of tensors; ` +
    `clocks aligned within ${exact.toFixed(2)} ms\nopen it at https://ui.perfetto.dev or chrome://tracing`
  );
}
