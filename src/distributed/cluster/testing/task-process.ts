/**
 * One task in its own process, for tests. Configured by TF_CONFIG and SHOAL_* variables, it joins its cluster and
 * prints one JSON line per event. It reads commands, one JSON line each, from stdin.
 */
import { createInterface } from 'node:readline';
import type { MembershipSettings } from '../membership/types.js';
import { resolveConfig } from '../spec/config.js';
import { securityOf } from '../spec/security.js';
import type { TaskId } from '../spec/task-id.js';
import { joinCluster } from '../task/cluster-task.js';

const print = (line: object) => process.stdout.write(`${JSON.stringify({ at: Date.now(), ...line })}\n`);

const config = resolveConfig({ argv: process.argv.slice(2), env: process.env });
if (config.mode !== 'cluster') throw new Error('a test task needs a cluster');

const moreSettings = JSON.parse(process.env.TEST_SETTINGS ?? '{}') as Partial<MembershipSettings>;

const task = await joinCluster({
  spec: config.spec,
  self: config.task,
  security: securityOf(config, config.task),
  serverAddress: '127.0.0.1:9',
  listen: config.listen.value,
  settings: {
    heartbeatMs: config.heartbeatMs.value,
    deadAfterMs: config.deadAfterMs.value,
    ...moreSettings,
  },
  onNotice: (notice) => print({ notice }),
});
task.events.on('*', (event) =>
  print(
    'member' in event
      ? { event: event.type, task: event.member.task, ...event }
      : { event: event.type, ...event },
  ),
);
task.onOrder('echo', (payload) => payload);
print({ up: task.task, address: task.agentAddress, incarnation: task.identity.incarnation });

interface Command {
  readonly id: number;
  readonly do: string;
  readonly tasks?: readonly TaskId[];
  readonly to?: TaskId;
  readonly timeoutMs?: number;
}

/** Blocks the main thread. A tenth of the time it computes. */
function block(ms: number): void {
  const end = performance.now() + ms / 10;
  while (performance.now() < end);
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms * 0.9);
}

async function execute({ do: what, tasks = [], to, timeoutMs = 10_000 }: Command): Promise<unknown> {
  switch (what) {
    case 'members':
      return { epoch: task.epoch, members: task.members() };
    case 'wait':
      return task.waitFor(tasks, { timeoutMs, quietMs: 0, onProgress: (progress) => print({ progress }) });
    case 'order':
      return task.order(to!, 'echo', 'hello', { timeoutMs });
    case 'remove':
      return task.remove(to!);
    case 'leave':
      return task.leave();
    case 'block':
      return block(timeoutMs);
    case 'status':
      return task.status();
    case 'cpu':
      return process.cpuUsage();
    default:
      throw new Error(`unknown command: ${what}`);
  }
}

const commands = createInterface({ input: process.stdin });
commands.on('line', async (line) => {
  const command = JSON.parse(line) as Command;
  try {
    print({ id: command.id, result: (await execute(command)) ?? null });
  } catch (error) {
    print({
      id: command.id,
      error: String((error as Error).message),
      code: (error as { code?: string }).code,
    });
  }
  if (command.do === 'leave') process.exit(0);
});
// The parent process is gone.
commands.on('close', () => process.exit(1));
