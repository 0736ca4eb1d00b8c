/** A task of the consistent-snapshot test: ps tasks serve, chief and worker train two loops each, the chief saves. */

import { describeError } from '../../src/base/errors/errors.js';
import { pullCheckpoint } from '../../src/distributed/checkpoint/directory/transfer.js';
import { Saver } from '../../src/training/train/checkpoints/saver.js';
import { RecoverableSession } from '../../src/training/train/recovery/recoverable-session.js';
import { Server } from '../../src/training/train/task/server.js';
import { serveCommands } from './commands.js';
import { buildSnapshotModel } from './snapshot-model.js';

interface Command {
  readonly id: number;
  readonly do: string;
  readonly consistency?: 'consistent' | 'relaxed';
}

process.chdir(process.env.TASK_DIRECTORY as string);
const log = (line: string) => process.stderr.write(`${line}\n`);
const server = await Server.start({ directory: '.', log });
const service = server.checkpoints;
const everybody = server.spec.tasks.map(({ id }) => id);

function trainer() {
  const { graph, loops } = buildSnapshotModel((ps) => `/job:ps/task:${ps}`);
  const cluster = server.session(graph);
  const session = new RecoverableSession({
    runner: cluster,
    graph,
    isChief: server.isChief,
    gate: service.pauses.gate,
    log,
  });
  const runner = { graph, server, run: cluster.run.bind(cluster) as typeof cluster.run };
  const own = server.isChief ? [0, 1] : [2, 3];
  let isOver = false;
  let training: Promise<unknown> = Promise.resolve();
  let steps = 0;

  return {
    /** Keeps two steps in flight. */
    async begin() {
      await session.ready();
      training = Promise.all(
        own.map(async (loop) => {
          while (!isOver) {
            await session.run(loops[loop]!);
            steps += 1;
          }
        }),
      );
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
    /** Saves, and pulls the checkpoint into a directory for the test to read. */
    async save({ consistency = 'consistent' }: Command) {
      const saver = new Saver({ namespace: 'job', maxToKeep: 0, consistency, log });
      const path = await saver.save(runner, 'checkpoints/model.ckpt');
      const [manifest] = await saver.list(runner, 'checkpoints');
      await pullCheckpoint(service.store(), 'job', manifest!, `pulled-${manifest!.sequence}`);
      return {
        path,
        prefix: manifest!.prefix,
        directory: `${process.env.TASK_DIRECTORY}/pulled-${manifest!.sequence}`,
      };
    },
  };
}

const own: Partial<Record<string, (command: Command) => Promise<unknown>>> = server.task.task.includes('ps')
  ? {}
  : trainer();

async function execute(command: Command): Promise<unknown> {
  if (command.do === 'wait') return server.task.waitFor(everybody, { timeoutMs: 150_000 });
  return own[command.do]!(command);
}

serveCommands(execute);
