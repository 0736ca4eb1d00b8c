/** A task of the torn-cut test: a ps serves, the chief and the worker train two lanes each, and the chief saves. */
import { createInterface } from 'node:readline';
import { pullCheckpoint } from '../../src/checkpoint/transfer.js';
import { isShoalError, messageOf } from '../../src/errors/errors.js';
import {
  type CheckpointService,
  checkpointServiceOf,
} from '../../src/train/checkpoints/checkpoint-service.js';
import { Saver } from '../../src/train/checkpoints/saver.js';
import { RecoverableSession } from '../../src/train/recovery/recoverable-session.js';
import { Server } from '../../src/train/sessions/server.js';
import { buildTornModel } from './torn-model.js';

interface Command {
  readonly id: number;
  readonly do: string;
  readonly consistency?: 'consistent' | 'relaxed';
}

process.chdir(process.env.TASK_DIRECTORY as string);
const log = (line: string) => process.stderr.write(`${line}\n`);
const server = await Server.start({ directory: '.', log });
const service = checkpointServiceOf(server) as CheckpointService;
const everybody = server.spec.tasks.map(({ id }) => id);

function trainer() {
  const { graph, lanes } = buildTornModel((ps) => `/job:ps/task:${ps}`);
  const cluster = server.session(graph);
  const session = new RecoverableSession({
    runner: cluster,
    graph,
    isChief: server.isChief,
    gate: service.gate,
    log,
  });
  const runner = { graph, server, run: cluster.run.bind(cluster) as typeof cluster.run };
  const own = server.isChief ? [0, 1] : [2, 3];
  let isOver = false;
  let training: Promise<unknown> = Promise.resolve();
  let steps = 0;

  return {
    /** Two steps are under way at any time. */
    async begin() {
      await session.ready();
      training = Promise.all(
        own.map(async (lane) => {
          while (!isOver) {
            await session.run(lanes[lane]!);
            steps += 1;
          }
        }),
      );
      training.catch((error: unknown) => log(messageOf(error)));
    },
    async steps() {
      return steps;
    },
    async end() {
      isOver = true;
      await training;
      return steps;
    },
    /** Saves, and gathers the checkpoint in a directory for the test to read. */
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

async function obey(command: Command): Promise<unknown> {
  if (command.do === 'wait') return server.task.waitFor(everybody, { timeoutMs: 150_000 });
  return own[command.do]!(command);
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
