/** A training cluster on lab hosts: the tasks, their hosts, and their logs with times. */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Lab, LabHost, LabProcess } from '../hosts/hosts.js';
import { ROOT } from '../hosts/root.js';

const programPath = (name: string) => fileURLToPath(new URL(`../programs/${name}`, import.meta.url));
const AGENT_PORT = 7400;

export interface LabClusterOptions {
  readonly ps: number;
  readonly workers: number;
  readonly lastStep: number;
  readonly inflight?: number;
  readonly heartbeatMs?: number;
  readonly deadAfterMs?: number;
  /** All tasks run on the first host; default: each has its own host. */
  readonly together?: boolean;
  /** The program in lab/programs that a task runs; default: `task.ts`. */
  readonly program?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** A directory for a file with the output of each task. */
  readonly logs?: string;
}

export interface LabTask {
  readonly job: 'ps' | 'worker';
  readonly index: number;
  readonly host: LabHost;
  readonly process: LabProcess;
  /** The agent's address. */
  readonly address: string;
}

export class LabCluster {
  readonly #lab: Lab;
  readonly #options: LabClusterOptions;
  readonly #spec: Record<'ps' | 'worker', string[]>;
  readonly #token = 'a-token-of-the-lab-0123456789';
  #nextPort = AGENT_PORT + 100;
  readonly tasks: LabTask[] = [];

  /** Host i runs ps i; the workers follow; further hosts are spare. */
  constructor(lab: Lab, options: LabClusterOptions) {
    this.#lab = lab;
    this.#options = options;
    const at = (host: number, port: number) => `${lab.host(options.together ? 0 : host).address}:${port}`;
    this.#spec = {
      ps: Array.from({ length: options.ps }, (_, i) => at(i, AGENT_PORT + i)),
      worker: Array.from({ length: options.workers }, (_, i) => at(options.ps + i, AGENT_PORT + 50 + i)),
    };
  }

  /** Starts a task at its address in the specification, or on another host at another port. */
  start(job: 'ps' | 'worker', index: number, elsewhere?: LabHost): LabTask {
    const home = job === 'ps' ? index : this.#options.ps + index;
    const host = elsewhere ?? this.#lab.host(this.#options.together ? 0 : home);
    const address = elsewhere ? `${host.address}:${this.#nextPort++}` : (this.#spec[job][index] as string);
    const workers = [...this.#spec.worker];
    // The address of a worker that is not in the specification is added to it.
    if (job === 'worker' && index >= workers.length) workers[index] = address;
    const { lastStep, inflight = 1, heartbeatMs = 200, deadAfterMs = 3000, logs } = this.#options;
    const started = host.start(
      process.execPath,
      [
        '--import',
        'tsx',
        programPath(this.#options.program ?? 'task.ts'),
        `--job_name=${job}`,
        `--task_index=${index}`,
        `--ps_hosts=${this.#spec.ps.join()}`,
        `--worker_hosts=${workers.join()}`,
        `--listen=${address}`,
      ],
      {
        // The package is read from the shared root; the task writes to the host's own disk.
        cwd: ROOT,
        ...(logs ? { logFile: join(logs, `${job}-${index}-${host.name}.log`) } : {}),
        env: {
          LAB_DISK: host.disk,
          LAB_LAST_STEP: String(lastStep),
          LAB_INFLIGHT: String(inflight),
          SHOAL_CLUSTER_TOKEN: this.#token,
          SHOAL_INSECURE_NETWORK: '1',
          SHOAL_HEARTBEAT_MS: String(heartbeatMs),
          SHOAL_DEAD_AFTER_MS: String(deadAfterMs),
          UV_THREADPOOL_SIZE: '16',
          ...this.#options.env,
        },
      },
    );
    const task: LabTask = { job, index, host, process: started, address };
    this.tasks.push(task);
    return task;
  }

  /** The last global step in a worker's log. */
  static step(task: LabTask): number {
    return Number(/.*step (\d+)/s.exec(task.process.output)?.[1] ?? 0);
  }
}

/** When a task first logged a line that matches, by the clock of this machine. */
export function loggedAt(task: LabTask, what: RegExp, after = 0): number | undefined {
  for (const line of task.process.output.split('\n')) {
    const [, time, text] = /^(\d+) (.*)$/.exec(line) ?? [];
    if (time !== undefined && Number(time) >= after && what.test(text as string)) return Number(time);
  }
  return undefined;
}
