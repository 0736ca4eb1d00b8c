/** A cluster of a classic program on lab hosts: every task is the same program, in its host's own directory. */
import { join } from 'node:path';
import { sleep } from '../src/async/deadline.js';
import type { Context } from './experiment.js';
import type { Lab, LabHost, LabProcess } from './hosts.js';
import { ROOT } from './root.js';

export const LOADER = join(ROOT, 'node_modules/tsx/dist/loader.mjs');
const TOKEN = 'a-token-of-the-lab-0123456789';

export interface ScenarioOptions {
  readonly program: string;
  readonly ps: number;
  readonly workers: number;
  /** Which host each task is on; host i for the i-th of ps and workers unless told. */
  readonly hostOf?: (job: 'ps' | 'worker', index: number) => number;
  readonly env?: Readonly<Record<string, string>>;
}

export interface ScenarioTask {
  readonly name: string;
  readonly host: LabHost;
  readonly process: LabProcess;
}

export class Scenario {
  readonly #lab: Lab;
  readonly #options: ScenarioOptions;
  readonly #addresses: Record<'ps' | 'worker', string[]>;

  constructor(lab: Lab, options: ScenarioOptions) {
    this.#lab = lab;
    this.#options = options;
    const at = (job: 'ps' | 'worker', port: number) => (_: unknown, index: number) =>
      `${this.hostOf(job, index).address}:${port + index}`;
    this.#addresses = {
      ps: Array.from({ length: options.ps }, at('ps', 2220)),
      worker: Array.from({ length: options.workers }, at('worker', 2230)),
    };
  }

  hostOf(job: 'ps' | 'worker', index: number): LabHost {
    const { hostOf, ps } = this.#options;
    return this.#lab.host(hostOf?.(job, index) ?? (job === 'ps' ? index : ps + index));
  }

  /** Starts a task on its host, or elsewhere, with more flags for the program. */
  start(
    job: 'ps' | 'worker',
    index: number,
    flags: readonly string[] = [],
    elsewhere?: { readonly host: LabHost; readonly port: number },
  ): ScenarioTask {
    const { program, env } = this.#options;
    const host = elsewhere?.host ?? this.hostOf(job, index);
    const listen = elsewhere ? [`--listen=${host.address}:${elsewhere.port}`] : [];
    const started = host.start(
      process.execPath,
      [
        '--import',
        LOADER,
        join(ROOT, program),
        `--job_name=${job}`,
        `--task_index=${index}`,
        `--ps_hosts=${this.#addresses.ps.join()}`,
        `--worker_hosts=${this.#addresses.worker.join()}`,
        ...listen,
        ...flags,
      ],
      {
        cwd: host.disk,
        env: {
          SHOAL_CLUSTER_TOKEN: TOKEN,
          SHOAL_INSECURE_NETWORK: '1',
          SHOAL_HEARTBEAT_MS: '200',
          SHOAL_DEAD_AFTER_MS: '3000',
          UV_THREADPOOL_SIZE: '16',
          ...env,
        },
      },
    );
    return { name: `${job} ${index}`, host, process: started };
  }

  /** All tasks, the workers first. */
  startAll(flags: readonly string[] = []): ScenarioTask[] {
    const { ps, workers } = this.#options;
    return [
      ...Array.from({ length: workers }, (_, index) => this.start('worker', index, flags)),
      ...Array.from({ length: ps }, (_, index) => this.start('ps', index, flags)),
    ];
  }
}

/** Waits for the ends of the tasks; all must be clean. */
export async function allEnd(
  ctx: Context,
  tasks: readonly ScenarioTask[],
  what: string,
  timeoutMs = 600_000,
): Promise<boolean> {
  const bad: string[] = [];
  await Promise.all(
    tasks.map(async ({ name, process }) => {
      const last = () => process.output.trimEnd().split('\n').slice(-4).join(' | ');
      try {
        const exit = await process.ended({ timeoutMs });
        if (exit.code !== 0) bad.push(`${name}: ${exit.signal ?? exit.code}: ${last()}`);
      } catch {
        bad.push(`${name} did not end: ${last()}`);
      }
    }),
  );
  return ctx.check(what, bad.length === 0, bad.join('; ') || `${tasks.length} tasks`);
}

/** Waits until a task has said something. */
export async function says(
  ctx: Context,
  { name, process }: ScenarioTask,
  pattern: RegExp,
  timeoutMs = 180_000,
): Promise<RegExpExecArray | undefined> {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    const match = pattern.exec(process.output);
    if (match) return match;
    if (Date.now() > deadline || !process.running) {
      ctx.check(`${name} says ${pattern}`, false, process.output.trimEnd().split('\n').slice(-4).join(' | '));
      return undefined;
    }
    await sleep(50, ctx.signal);
  }
}
