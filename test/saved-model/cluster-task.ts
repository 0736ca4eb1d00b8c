/**
 * A task for tests of cluster exports. Every step increments two variables on two ps and the global step: in a
 * consistent snapshot all of their elements are equal. A worker trains, exports and saves on command.
 */
import { spawnSync } from 'node:child_process';
import { closeSync, openSync, readdirSync, rmSync, statfsSync, statSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import * as tf from '../../src/app/tf/index.js';
import { describeError } from '../../src/base/errors/errors.js';
import { Graph } from '../../src/tensorflow/graph/graph.js';
import { getOrCreateGlobalStep } from '../../src/tensorflow/variables/global-step.js';
import { predictSignatureDef, SavedModelBuilder, tags } from '../../src/training/saved-model/index.js';
import { clusterVariables } from '../../src/training/saved-model/variables/cluster-variables.js';
import { Saver } from '../../src/training/train/checkpoints/saver.js';
import { RecoverableSession } from '../../src/training/train/recovery/recoverable-session.js';
import { Server } from '../../src/training/train/task/server.js';
import { serveCommands } from '../checkpoint/commands.js';

interface Command {
  readonly id: number;
  readonly do: string;
  readonly version?: string;
  readonly consistency?: 'consistent' | 'relaxed';
  readonly fault?: string;
  readonly freePages?: number;
  readonly timeoutMs?: number;
}

const ELEMENTS = 100_000;
const IN_FLIGHT = 2;
const PAGE = 4096;
const BALLAST = 'ballast';

const directory = process.env.TASK_DIRECTORY as string;
// Uses a separate disk that can be filled; the mount is visible only to this process.
if (process.env.TASK_DISK_BYTES) {
  const script =
    'mount -t tmpfs -o "size=$TASK_DISK_BYTES" tmpfs "$TASK_DIRECTORY" && TASK_DISK_BYTES= exec "$@"';
  const own = [process.execPath, ...process.execArgv, ...process.argv.slice(1)];
  const { status } = spawnSync('unshare', ['-rm', 'sh', '-c', script, 'sh', ...own], { stdio: 'inherit' });
  process.exit(status ?? 1);
}
process.chdir(directory);
const log = (line: string) => process.stderr.write(`${line}\n`);
const server = await Server.start({ directory: '.', log });
const service = server.checkpoints;
const everybody = server.spec.tasks.map(({ id }) => id);

function buildModel() {
  const graph = new Graph();
  return graph.asDefault(() => {
    const on = <T>(ps: number, build: () => T): T => graph.device(`/job:ps/task:${ps}`, build);
    const globalStep = on(0, () => getOrCreateGlobalStep(graph));
    const [a, b] = ['a', 'b'].map((name, ps) =>
      on(ps, () =>
        tf.variable(name, { shape: [ELEMENTS], dtype: 'int64', initializer: tf.zerosInitializer() }),
      ),
    );
    const ones = tf.fill([ELEMENTS], 1n) as never;
    const step = tf.group([globalStep.assignAdd(1n), a!.assignAdd(ones), b!.assignAdd(ones)]);
    const x = tf.placeholder({ dtype: 'int64', shape: [], name: 'x' });
    const range = (value: typeof a) => ({
      least: tf.min(value!.toOutput()).add(x),
      most: tf.max(value!.toOutput()).add(x),
    });
    const [ofA, ofB] = [range(a), range(b)];
    const outputs = {
      step: globalStep.toOutput().add(x),
      leastA: ofA.least,
      mostA: ofA.most,
      leastB: ofB.least,
      mostB: ofB.most,
    };
    return { graph, step, signature: predictSignatureDef({ inputs: { x }, outputs }) };
  });
}

function worker() {
  const { graph, step, signature } = buildModel();
  const cluster = server.session(graph);
  const session = new RecoverableSession({
    runner: cluster,
    graph,
    isChief: server.isChief,
    gate: service.pauses.gate,
    log,
  });
  const runner = { graph, server, run: cluster.run.bind(cluster) as typeof cluster.run };
  let isOver = false;
  let training: Promise<unknown> = Promise.resolve();
  let steps = 0;

  return {
    /** Runs a step; the session first initializes variables that have no values. */
    async step() {
      await session.run(step);
      steps += 1;
    },
    /** Keeps several steps in flight until `end`. */
    async begin() {
      await session.ready();
      const train = async () => {
        while (!isOver) {
          await session.run(step);
          steps += 1;
        }
      };
      training = Promise.all(Array.from({ length: IN_FLIGHT }, train));
      training.catch((error: unknown) => log(describeError(error)));
    },
    async steps() {
      return steps;
    },
    async end() {
      isOver = true;
      await training;
      return steps;
    },
    async export({ version = '1', consistency }: Command) {
      await using builder = new SavedModelBuilder(`export/${version}`);
      const source = clusterVariables(server, { consistency });
      await builder.addMetaGraphAndVariables(runner, [tags.serving], {
        signatureDefMap: { serving_default: signature },
        clearDevices: true,
        source,
      });
      return await builder.save();
    },
    async save() {
      const saver = new Saver({ namespace: 'job', maxToKeep: 2, log });
      return saver.save(runner, 'checkpoints/model.ckpt');
    },
    /** What the end of a session does. */
    async finish({ timeoutMs }: Command) {
      await service.lastSteps.finish({ stay: true, log, ...(timeoutMs === undefined ? {} : { timeoutMs }) });
    },
    /** What the start of another session does. */
    async unfinish() {
      await service.lastSteps.begin();
    },
    async leave() {
      await server.close();
    },
  };
}

const common: Record<string, (command: Command) => unknown> = {
  wait: () => server.task.waitFor(everybody, { timeoutMs: 150_000 }),
  fault: ({ fault = '' }) => {
    process.env.SHOAL_FAULT = fault;
  },
  /** All files of this task. */
  files: () =>
    readdirSync('.', { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map(({ parentPath, name }) => join(parentPath, name)),
  /** The different modes of the files of an export, and that of a file which this process creates. */
  modes: ({ version = '' }) => {
    const files = readdirSync(join('export', version), { recursive: true, withFileTypes: true });
    const exported = files
      .filter((entry) => entry.isFile())
      .map(({ parentPath, name }) => join(parentPath, name));
    return [...new Set([...exported, BALLAST].map((path) => statSync(path).mode & 0o777))];
  },
  /** Fills the disk except for some pages. */
  fill: ({ freePages = 0 }) => {
    rmSync(BALLAST, { force: true });
    const file = openSync(BALLAST, 'w');
    const page = Buffer.alloc(PAGE);
    while (statfsSync('.').bavail > freePages) writeSync(file, page);
    closeSync(file);
    return statfsSync('.').bavail;
  },
};
const own: Record<string, (command: Command) => unknown> = {
  ...common,
  ...(server.task.task.includes('ps') ? {} : worker()),
};

serveCommands<Command>((command) => own[command.do]!(command));
