/**
 * A task of the crash matrix. A ps and a worker take part; the chief saves and restores when it is told to. All
 * variables of the model have values that tell a step, so that values of two steps are never taken for one.
 */
import { Server as HttpServer } from 'node:http';
import { createInterface } from 'node:readline';
import { sleep } from '../../src/async/deadline.js';
import { damagedCopies, lostFiles, verifyCheckpoint } from '../../src/checkpoint/verify.js';
import { replicaDeviceSetter } from '../../src/cluster/spec/device-setter.js';
import type { TaskId } from '../../src/cluster/spec/task-id.js';
import { isShoalError, messageOf } from '../../src/errors/errors.js';
import { Graph } from '../../src/graph/graph.js';
import { Tensor } from '../../src/tensor/tensor.js';
import * as tf from '../../src/tf.js';
import { checkpointServiceOf } from '../../src/train/checkpoints/checkpoint-service.js';
import { Saver } from '../../src/train/checkpoints/saver.js';
import { Server } from '../../src/train/sessions/server.js';
import { getOrCreateGlobalStep } from '../../src/variables/global-step.js';
import { fixedSizePartitioner } from '../../src/variables/partitioned.js';
import { globalVariables } from '../../src/variables/variable-scope.js';

interface Command {
  readonly id: number;
  readonly do: string;
  readonly step?: number;
  readonly fault?: string;
  readonly task?: string;
}

process.chdir(process.env.TASK_DIRECTORY as string);
const log = (line: string) => process.stderr.write(`${line}\n`);
const server = await Server.start({ directory: '.', log });
const everybody = server.spec.tasks.map(({ id }) => id);

/** The value of a variable at a step: every element has the step in it. */
function valueAt(index: number, dtype: string, shape: readonly number[], step: number): Tensor {
  const count = shape.reduce((a, b) => a * b, 1);
  if (dtype === 'int64') return Tensor.of(BigInt(step), { dtype: 'int64' });
  if (dtype === 'string') {
    return Tensor.of(Array.from({ length: count }, (_, i) => `${step}:${i}`.repeat(i % 3)));
  }
  const data = Float32Array.from({ length: count }, (_, i) => step + ((index + i) % 1000) / 1024);
  return Tensor.of(data as never, { dtype: 'float32', shape });
}

function lead() {
  const graph = new Graph();
  const device = replicaDeviceSetter({ psTasks: server.psTasks.length, workerDevice: server.task.task });
  const assigns = graph.asDefault(() =>
    graph.device(device, () => {
      getOrCreateGlobalStep(graph);
      tf.variable('w', { shape: [257], initializer: tf.zerosInitializer() });
      tf.variable('b', { shape: [1 << 20], initializer: tf.zerosInitializer() });
      tf.partitionedVariable('table', {
        shape: [100, 7],
        initializer: tf.zerosInitializer(),
        partitioner: fixedSizePartitioner(2),
      });
      tf.newVariable(tf.constant(['', '', '', '']), { name: 'words', trainable: false });
      return globalVariables(graph).map((variable) => {
        const value = tf.placeholder({ dtype: variable.dtype, shape: variable.fullShape });
        return { variable, value, assign: variable.assign(value) };
      });
    }),
  );
  const session = server.session(graph);
  const runner = { graph, server, run: session.run.bind(session) as typeof session.run };
  const { TASK_WAIT_MS } = process.env;
  const waitMs = TASK_WAIT_MS === undefined ? undefined : Number(TASK_WAIT_MS);
  const saver = new Saver({ namespace: 'job', maxToKeep: Number(process.env.TASK_KEEP ?? 2), log, waitMs });
  const directory = 'checkpoints';

  async function set(step: number): Promise<void> {
    const feeds = assigns.map(
      ({ variable, value }, i) => [value, valueAt(i, variable.dtype, variable.fullShape, step)] as const,
    );
    await session.run(
      assigns.map(({ assign }) => assign),
      { feeds, timeoutMs: 60_000 },
    );
  }

  /** The step that all values are of, bit for bit, or what they are instead. */
  async function look(): Promise<number | string> {
    const values = await session.run(
      assigns.map(({ variable }) => variable.toOutput()),
      { timeoutMs: 60_000 },
    );
    const step = Number(values[0]!.number());
    const wrong = assigns.flatMap(({ variable }, i) => {
      const expected = valueAt(i, variable.dtype, variable.fullShape, step);
      return sameBits(expected, values[i]!) ? [] : [`${variable.name} = ${values[i]!.data[0]}…`];
    });
    return wrong.length === 0 ? step : `global_step ${step}, but ${wrong.join(', ')}`;
  }

  /** As recovery does it: again while the cluster is not complete. */
  async function restoreWith(whom: readonly TaskId[]) {
    for (let attempt = 0; ; attempt++) {
      try {
        await server.task.waitFor(whom, { timeoutMs: 120_000 });
        const report = await saver.restoreNewest(runner, directory);
        if (!report) throw new Error('there is no checkpoint at all');
        return { prefix: report.manifest.prefix, found: await look(), notices: report.notices };
      } catch (error) {
        const mayPass =
          isShoalError(error, 'SHOAL_UNREACHABLE') || isShoalError(error, 'SHOAL_TF_UNAVAILABLE');
        if (!mayPass || attempt > 100) throw error;
        log(`restoring again: ${messageOf(error)}`);
        await sleep(200);
      }
    }
  }

  /** Attempts that have blobs anywhere, and those that have a manifest. */
  async function attempts() {
    const [written, committed] = [new Set<string>(), new Set<string>()];
    for await (const { name } of checkpointServiceOf(server)!.store().list('job/')) {
      const manifest = /^job\/manifests\/\d+-\d+-(.*)\.json$/.exec(name)?.[1];
      const file = /^job\/[^/]+@([^/]+)\//.exec(name)?.[1];
      if (manifest) committed.add(manifest);
      if (file) written.add(file);
    }
    return { written: [...written].sort(), committed: [...committed].sort() };
  }

  /** Every checkpoint, newest first, with what is wrong with it. */
  async function verify(): Promise<readonly { step: number; problems: readonly string[] }[]> {
    const reports: { step: number; problems: readonly string[] }[] = [];
    for (const manifest of await saver.list(runner, directory)) {
      const report = await verifyCheckpoint(checkpointServiceOf(server)!.store(), 'job', manifest);
      const damaged = damagedCopies(report).map(
        ({ file, place, problem }) => `${file} at ${place}: ${problem}`,
      );
      const problems = [...report.problems, ...damaged, ...lostFiles(report)];
      reports.push({ step: manifest.step, problems });
    }
    return reports;
  }

  return {
    set: ({ step = 0 }: Command) => set(step),
    save: () => saver.save(runner, `${directory}/model.ckpt`),
    restore: () => restoreWith(everybody),
    restoreWithPs: () => restoreWith(server.psTasks),
    look,
    attempts,
    verify,
  };
}

function sameBits(a: Tensor, b: Tensor): boolean {
  if (a.dtype === 'string') return JSON.stringify(a.toArray()) === JSON.stringify(b.toArray());
  const bytes = ({ data }: Tensor) => {
    const view = data as unknown as NodeJS.TypedArray;
    return Buffer.from(view.buffer, view.byteOffset, view.byteLength);
  };
  return bytes(a).equals(bytes(b));
}

const chief: Partial<Record<string, (command: Command) => Promise<unknown>>> = server.isChief ? lead() : {};

/** From here on nobody reaches this task, which reaches everybody: a partition in one direction. */
function closeAgent(): void {
  const { _getActiveHandles: handles } = process as unknown as { _getActiveHandles(): readonly unknown[] };
  for (const handle of handles()) {
    if (!(handle instanceof HttpServer)) continue;
    handle.close();
    handle.closeAllConnections();
  }
}

async function obey(command: Command): Promise<unknown> {
  if (command.do === 'wait') return server.task.waitFor(everybody, { timeoutMs: 400_000 });
  if (command.do === 'lose') {
    const isThere = () =>
      server.task.members().filter(({ task, status }) => task === command.task && status === 'alive');
    return server.task.waitFor(() => isThere().map(({ task }) => task), { timeoutMs: 400_000 });
  }
  if (command.do === 'fault') {
    process.env.SHOAL_FAULT = command.fault;
    return null;
  }
  if (command.do === 'close-agent') return closeAgent();
  return chief[command.do]!(command);
}

const commands = createInterface({ input: process.stdin });
commands.on('line', async (line) => {
  const command = JSON.parse(line) as Command;
  const say = (answer: object) => process.stdout.write(`${JSON.stringify({ id: command.id, ...answer })}\n`);
  try {
    say({ result: (await obey(command)) ?? null });
  } catch (error) {
    say({ error: messageOf(error), code: isShoalError(error) ? error.code : '' });
  }
});
// Whoever started this task is gone: nobody would end it.
commands.on('close', () => process.exit(1));
