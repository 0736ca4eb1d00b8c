/**
 * A cluster on lab hosts: every task is the same program, in its host's own directory. The program is a classic one, or a
 * job that `shoal task` runs.
 */
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { sleep } from '../../src/base/async/deadline.js';
import { LAST_STEPS_MS } from '../../src/training/train/checkpoints/retrying-saver.js';
import type { Bundle } from '../cluster/bundle.js';
import type { Context } from '../experiment.js';
import type { Lab, LabHost, LabProcess } from '../hosts/hosts.js';
import { ROOT } from '../hosts/root.js';

export const LOADER = join(ROOT, 'node_modules/tsx/dist/loader.mjs');
export const SHOAL = join(ROOT, 'bin/shoal.cjs');
const PORTS = { ps: 2220, worker: 2230 } as const;

export interface ScenarioOptions {
  readonly program: string;
  /** Whether the program is a job, which `shoal task` runs. */
  readonly isJob?: boolean;
  /** Has the command line and the program; default: they are loaded from the sources. */
  readonly bundle?: Bundle | undefined;
  readonly ps: number;
  readonly workers: number;
  /** The host of each task; default: host i for the i-th of ps and workers. */
  readonly hostOf?: (job: 'ps' | 'worker', index: number) => number;
  readonly env?: Readonly<Record<string, string>>;
  /** A directory for a file with the output of each task. */
  readonly logs?: string;
}

export interface ScenarioTask {
  readonly name: string;
  readonly host: LabHost;
  readonly process: LabProcess;
  /** The output, with times in milliseconds. */
  readonly lines: readonly { readonly at: number; readonly text: string }[];
}

export class Scenario {
  /** Unique: a process with it in its environment is a task of this scenario, or was started by one. */
  readonly token = randomBytes(16).toString('hex');
  readonly #lab: Lab;
  readonly #options: ScenarioOptions;
  readonly #addresses: Record<'ps' | 'worker', string[]>;
  readonly #moved = new Map<string, LabHost>();

  constructor(lab: Lab, options: ScenarioOptions) {
    this.#lab = lab;
    this.#options = options;
    const at = (job: 'ps' | 'worker') => (_: unknown, index: number) => this.#addressOf(job, index);
    this.#addresses = {
      ps: Array.from({ length: options.ps }, at('ps')),
      worker: Array.from({ length: options.workers }, at('worker')),
    };
  }

  hostOf(job: 'ps' | 'worker', index: number): LabHost {
    const { hostOf, ps } = this.#options;
    const moved = this.#moved.get(`${job} ${index}`);
    return moved ?? this.#lab.host(hostOf?.(job, index) ?? (job === 'ps' ? index : ps + index));
  }

  /** Moves a task to another host: it starts there the next time, and tasks that start later get its new address. */
  move(job: 'ps' | 'worker', index: number, host: LabHost): void {
    this.#moved.set(`${job} ${index}`, host);
    this.#addresses[job][index] = this.#addressOf(job, index);
  }

  #addressOf(job: 'ps' | 'worker', index: number): string {
    return `${this.hostOf(job, index).address}:${PORTS[job] + index}`;
  }

  /** The address of a task's agent. */
  address(job: 'ps' | 'worker', index: number): string {
    return this.#addresses[job][index] as string;
  }

  /** Starts a task on its host, or elsewhere, with more flags for the program. */
  start(
    job: 'ps' | 'worker',
    index: number,
    flags: readonly string[] = [],
    elsewhere?: { readonly host: LabHost; readonly port: number },
  ): ScenarioTask {
    const { program, isJob, bundle, env, logs } = this.#options;
    const host = elsewhere?.host ?? this.hostOf(job, index);
    const role = [
      `--job_name=${job}`,
      `--task_index=${index}`,
      `--ps_hosts=${this.#addresses.ps.join()}`,
      `--worker_hosts=${this.#addresses.worker.join()}`,
      ...(elsewhere ? [`--listen=${host.address}:${elsewhere.port}`] : []),
    ];
    const path = bundle?.programOf(program) ?? join(ROOT, program);
    const args = isJob
      ? [bundle?.shoal ?? SHOAL, 'task', path, ...role, '--', ...flags]
      : ['--import', LOADER, path, ...role, ...flags];
    const lines: { at: number; text: string }[] = [];
    const started = host.start(process.execPath, args, {
      cwd: host.disk,
      ...(logs ? { logFile: join(logs, `${job}-${index}-${host.name}.log`) } : {}),
      onLine: (text) => lines.push({ at: Date.now(), text }),
      env: {
        SHOAL_CLUSTER_TOKEN: this.token,
        SHOAL_INSECURE_NETWORK: '1',
        SHOAL_HEARTBEAT_MS: '200',
        SHOAL_DEAD_AFTER_MS: process.env.SHOAL_DEAD_AFTER_MS ?? '3000',
        // The default of the command line: each thread of an input queue needs one.
        UV_THREADPOOL_SIZE: '64',
        // The example programs import `shoal`; tsx looks for its path in the working directory only.
        TSX_TSCONFIG_PATH: join(ROOT, 'tsconfig.json'),
        ...env,
      },
    });
    return { name: `${job} ${index}`, host, process: started, lines };
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

const lastLines = ({ process }: ScenarioTask) => process.output.trimEnd().split('\n').slice(-4).join(' | ');

/** Waits until the tasks have ended; asserts that all exit with one of the codes. */
export async function allEnd(
  ctx: Context,
  tasks: readonly ScenarioTask[],
  what: string,
  {
    timeoutMs = 600_000,
    codes = [0],
  }: { readonly timeoutMs?: number; readonly codes?: readonly number[] } = {},
): Promise<boolean> {
  const bad: string[] = [];
  await Promise.all(
    tasks.map(async (task) => {
      const { name, process } = task;
      try {
        const exit = await process.ended({ timeoutMs });
        if (exit.code === null || !codes.includes(exit.code)) {
          bad.push(`${name}: ${exit.signal ?? exit.code}: ${lastLines(task)}`);
        }
      } catch {
        bad.push(`${name} did not end: ${lastLines(task)}`);
      }
    }),
  );
  return ctx.check(what, bad.length === 0, bad.join('; ') || `${tasks.length} tasks`);
}

/** Interrupts every task; asserts that all save and stop. */
export async function interrupt(
  ctx: Context,
  tasks: readonly ScenarioTask[],
  codes: readonly number[] = [0],
): Promise<boolean> {
  for (const { process } of tasks) process.kill('SIGINT');
  return allEnd(ctx, tasks, 'all end after Ctrl-C', { codes });
}

/** Waits until the output of a task matches. */
export async function waitForOutput(
  ctx: Context,
  task: ScenarioTask,
  pattern: RegExp,
  timeoutMs = 300_000,
): Promise<RegExpExecArray | undefined> {
  const deadline = Date.now() + timeoutMs;
  const { name, process } = task;
  for (;;) {
    const match = pattern.exec(process.output);
    if (match) return match;
    if (Date.now() > deadline || !process.running) {
      ctx.check(`${name} prints ${pattern}`, false, lastLines(task));
      return undefined;
    }
    await sleep(50, ctx.signal);
  }
}

/** The first match in a task's output after an offset; undefined at the timeout. */
export async function nextOutput(
  ctx: Context,
  { process }: ScenarioTask,
  pattern: RegExp,
  from: number,
  timeoutMs: number,
): Promise<string | undefined> {
  const deadline = Date.now() + timeoutMs;
  while (Date.now() < deadline && process.running) {
    const match = pattern.exec(process.output.slice(from));
    if (match) return match[0];
    await sleep(100, ctx.signal);
  }
  return undefined;
}

/** The checkpoints in a chief's log: the step, the time, and the duration if it is logged. */
export const savesOf = ({ lines }: ScenarioTask): { at: number; step: number; tookMs: number }[] =>
  lines.flatMap(({ at, text }) => {
    const [, step, secs = '0'] = /^saved .*model\.ckpt-(\d+)(?: in ([\d.]+) s)?/.exec(text) ?? [];
    return step === undefined ? [] : [{ at, step: Number(step), tookMs: Number(secs) * 1000 }];
  });

/**
 * Asserts that checkpoints were saved at the start, at the interval and at the end, and not more often. A supervisor's
 * interval starts when a save has ended, a hook's when it has begun.
 */
export function savedByTime(ctx: Context, chief: ScenarioTask, secs: number): void {
  const saves = savesOf(chief).map(({ at, step, tookMs }) => ({ step, begun: at - tookMs, ended: at }));
  const endedAt = chief.lines.at(-1)?.at ?? 0;
  const lasted = (endedAt - (saves[0]?.begun ?? endedAt)) / 1000;
  const gaps = saves.map(({ ended }, index) => (saves[index + 1]?.begun ?? endedAt) - ended);
  const isInTime = gaps.every((gap, index) => {
    const isBeforeLast = index === saves.length - 2;
    return gap <= 1500 * secs + (isBeforeLast ? LAST_STEPS_MS : 0);
  });
  ctx.check(
    `checkpoints are saved every ${secs} s, and one at the end`,
    saves.length >= 2 && saves.length <= lasted / secs + 2 && isInTime,
    `${saves.length} in ${lasted.toFixed(0)} s: steps ${saves.map(({ step }) => step).join(', ')}`,
  );
}
