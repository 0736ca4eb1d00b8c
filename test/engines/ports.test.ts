/** The ports of tasks that train: with the engine `direct` only the agent's. */
import { expect, it } from 'vitest';
import { type TaskProcess, TaskProcesses } from '../cluster/processes.js';
import { listeningPorts } from './listening-ports.js';

const PROGRAM = 'monitored.ts';
/** Only detects hangs. */
const TIMEOUT = 240_000;

/** The port of the agent, from the flags of the process. */
function agentPort(task: TaskProcess, job: 'ps' | 'worker'): number {
  const flag = task.child.spawnargs.find((arg) => arg.startsWith(`--${job}_hosts=`)) as string;
  return Number(flag.split(':').at(-1));
}

it.runIf(process.platform === 'linux').each([
  ['direct', 0],
  ['grpc', 1],
])(
  'a task with the engine %s listens on the port of its agent and %i others',
  {
    timeout: TIMEOUT,
  },
  async (engine, others) => {
    await using tasks = await TaskProcesses.create(PROGRAM, 1, 1, {
      LAST_STEP: '1000000000',
      SHOAL_ENGINE: engine,
    });
    const ps = tasks.start('ps', 0, [], PROGRAM);
    const worker = tasks.start('worker', 0, [], PROGRAM);
    await worker.waitForOutput(/^step \d+/m);
    for (const [task, job] of [
      [ps, 'ps'],
      [worker, 'worker'],
    ] as const) {
      const open = listeningPorts(task.child.pid as number);
      expect(open).toContain(agentPort(task, job));
      expect(open).toHaveLength(1 + others);
    }
  },
);
