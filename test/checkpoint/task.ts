/**
 * A task of the crash matrix; the chief saves and restores on command. All values of the model encode their step, so
 * that a mixture of two steps is detected.
 */
import { Server as HttpServer } from 'node:http';
import * as tf from '../../src/app/tf/index.js';
import { sleep } from '../../src/base/async/deadline.js';
import { describeError, isShoalError } from '../../src/base/errors/errors.js';
import {
  damagedCopies,
  lostFiles,
  verifyCheckpoint,
} from '../../src/distributed/checkpoint/maintenance/verify.js';
import { replicaDeviceSetter } from '../../src/distributed/cluster/spec/device-setter.js';
import type { TaskId } from '../../src/distributed/cluster/spec/task-id.js';
import { Graph } from '../../src/tensorflow/graph/graph.js';
import { Tensor } from '../../src/tensorflow/tensor/tensor.js';
import { getOrCreateGlobalStep } from '../../src/tensorflow/variables/global-step.js';
import { fixedSizePartitioner } from '../../src/tensorflow/variables/partitioned.js';
import { globalVariables } from '../../src/tensorflow/variables/variable-scope.js';
import { Saver } from '../../src/training/train/checkpoints/saver.js';
import { Server } from '../../src/training/train/task/server.js';
import { serveCommands } from './commands.js';
import { sameBits } from './same-bits.js';

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

/** The value of a variable at a step: every element encodes the step. */
function valueAt(index: number, dtype: string, shape: readonly number[], step: number): Tensor {
  const count = shape.reduce((a, b) => a * b, 1);
  if (dtype === 'int64') return Tensor.of(BigInt(step), { dtype: 'int64' });
  if (dtype === 'string') {
    return Tensor.of(Array.from({ length: count }, (_, i) => `${step}:${i}`.repeat(i % 3)));
  }
  const data = Float32Array.from({ length: count }, (_, i) => step + ((index + i) % 1000) / 1024);
  return Tensor.of(data as never, { dtype: 'float32', shape });
}

function chiefCommands() {
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

  /** The step that all values belong to, bit for bit, or a description of the differences. */
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

  /** Retries while the cluster is incomplete, as recovery does. */
  async function restoreWith(tasks: readonly TaskId[]) {
    for (let attempt = 0; ; attempt++) {
      try {
        await server.task.waitFor(tasks, { timeoutMs: 120_000 });
        const report = await saver.restoreNewest(runner, directory);
        if (!report) throw new Error(`${directory} has no checkpoint`);
        return { prefix: report.manifest.prefix, found: await look(), notices: report.notices };
      } catch (error) {
        const isTransient =
          isShoalError(error, 'SHOAL_UNREACHABLE') || isShoalError(error, 'SHOAL_TF_UNAVAILABLE');
        if (!isTransient || attempt > 100) throw error;
        log(`retrying the restore: ${describeError(error)}`);
        await sleep(200);
      }
    }
  }

  /** Attempts with blobs on any disk, and attempts with a manifest. */
  async function attempts() {
    const [written, committed] = [new Set<string>(), new Set<string>()];
    for await (const { name } of server.checkpoints.store().list('job/')) {
      const manifest = /^job\/manifests\/\d+-\d+-(.*)\.json$/.exec(name)?.[1];
      const file = /^job\/[^/]+@([^/]+)\//.exec(name)?.[1];
      if (manifest) committed.add(manifest);
      if (file) written.add(file);
    }
    return { written: [...written].sort(), committed: [...committed].sort() };
  }

  /** Every checkpoint, newest first, with its problems. */
  async function verify(): Promise<readonly { step: number; problems: readonly string[] }[]> {
    const reports: { step: number; problems: readonly string[] }[] = [];
    for (const manifest of await saver.list(runner, directory)) {
      const report = await verifyCheckpoint(server.checkpoints.store(), 'job', manifest);
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

const chief: Partial<Record<string, (command: Command) => Promise<unknown>>> = server.isChief
  ? chiefCommands()
  : {};

/** A one-way partition: this task reaches the others, but they cannot reach it. */
function closeAgent(): void {
  const { _getActiveHandles: handles } = process as unknown as { _getActiveHandles(): readonly unknown[] };
  for (const handle of handles()) {
    if (!(handle instanceof HttpServer)) continue;
    handle.close();
    handle.closeAllConnections();
  }
}

async function execute(command: Command): Promise<unknown> {
  if (command.do === 'wait') return server.task.waitFor(everybody, { timeoutMs: 400_000 });
  if (command.do === 'lose') {
    const aliveMembers = () =>
      server.task.members().filter(({ task, status }) => task === command.task && status === 'alive');
    return server.task.waitFor(() => aliveMembers().map(({ task }) => task), { timeoutMs: 400_000 });
  }
  if (command.do === 'fault') {
    process.env.SHOAL_FAULT = command.fault;
    return null;
  }
  if (command.do === 'close-agent') return closeAgent();
  return chief[command.do]!(command);
}

serveCommands(execute);
