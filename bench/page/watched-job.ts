/** A job on a cluster that `shoal run` starts, with pages that look at it. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readClusterFile } from '../../src/app/job/launcher/cluster-file.js';
import { AgentClient } from '../../src/distributed/cluster/agent/agent-client.js';
import { askStatus } from '../../src/distributed/cluster/agent/status.js';
import type { ClusterStatus } from '../../src/distributed/cluster/agent/wire.js';
import { type Security, tokenSecurity } from '../../src/distributed/cluster/spec/security.js';
import { trains } from '../../src/distributed/cluster/spec/task-id.js';
import { installedPackage } from '../cluster/run-job.js';
import { environmentOf, ROOT } from '../harness.js';

const SETTINGS = { model: 'softmax', inflight: 1 };
const START_MS = 180_000;
/** After a page was opened or closed. */
const SETTLE_MS = 1000;

export class WatchedJob {
  readonly token: string;
  readonly #child: ChildProcess;
  readonly #directory: string;
  readonly #addresses: readonly string[];
  readonly #security: Security;

  private constructor(child: ChildProcess, directory: string, token: string, addresses: readonly string[]) {
    this.#child = child;
    this.#directory = directory;
    this.token = token;
    this.#addresses = addresses;
    this.#security = tokenSecurity(token);
  }

  /** Two ps and two workers that train. */
  static async start(): Promise<WatchedJob> {
    const directory = await mkdtemp(join(tmpdir(), 'shoal-bench-'));
    const home = await installedPackage(join(directory, 'package'));
    const dir = join(directory, 'job');
    const child = spawn(
      process.execPath,
      [
        join(home, 'bin/shoal.cjs'),
        'run',
        join(ROOT, 'bench/programs/job.mjs'),
        '--ps=2',
        '--workers=2',
        `--dir=${dir}`,
      ],
      {
        env: { ...environmentOf(SETTINGS), UV_THREADPOOL_SIZE: undefined },
        stdio: ['ignore', 'ignore', 'inherit'],
      },
    );
    const file = await until('the cluster', () => {
      if (child.exitCode !== null) throw new Error(`the job ended with code ${child.exitCode}`);
      const found = readClusterFile(dir);
      return found && found.agents.length > 0 ? found : undefined;
    });
    const job = new WatchedJob(child, directory, file.token, file.agents);
    await job.untilTraining();
    return job;
  }

  #status(): Promise<ClusterStatus> {
    return askStatus({ addresses: this.#addresses, security: this.#security });
  }

  /** All tasks are alive, and steps are made. */
  async untilTraining(): Promise<void> {
    await until('all tasks', async () => {
      const status = await this.#status().catch(() => undefined);
      return (
        (status?.members.length === 4 && status.members.every((one) => one.status === 'alive')) || undefined
      );
    });
    const before = await until('the workers', () => this.#steps().catch(() => undefined));
    await until('steps', async () => ((await this.#steps()) > before + 20 ? true : undefined));
  }

  /** The steps that all workers have made. */
  async #steps(): Promise<number> {
    const { members } = await this.#status();
    const counts = members
      .filter(({ task }) => trains(task))
      .map((member) => this.#stepsOf(member.agentAddress));
    return (await Promise.all(counts)).reduce((sum, count) => sum + count, 0);
  }

  async #stepsOf(address: string): Promise<number> {
    const client = new AgentClient({ address, security: this.#security });
    try {
      return Number(/^shoal_steps_total (\d+)$/m.exec(await client.metrics())?.[1] ?? Number.NaN);
    } finally {
      client.close();
    }
  }

  /** The address of the page at the chief. */
  async pageAddress(): Promise<string> {
    const { members, chief } = await this.#status();
    return `http://${members.find(({ task }) => task === chief)?.agentAddress}/page`;
  }

  /** The rate of all workers, while so many pages read the updates of the chief. */
  async stepsPerSecond(seconds: number, pages: number): Promise<number> {
    const over = new AbortController();
    const address = await this.pageAddress();
    const reading = Array.from({ length: pages }, () => readPage(address, this.token, over.signal));
    try {
      await sleep(SETTLE_MS);
      const [from, begun] = [await this.#steps(), performance.now()];
      await sleep(seconds * 1000);
      return (((await this.#steps()) - from) / (performance.now() - begun)) * 1000;
    } finally {
      over.abort();
      await Promise.all(reading);
    }
  }

  /** Kills a task, such as `ps 1`; returns when, by the clock of the machine. */
  async kill(name: string): Promise<number> {
    const [job, index] = name.split(' ');
    const { members } = await this.#status();
    const pid = members.find(({ task }) => task === `/job:${job}/task:${index}`)?.pid;
    if (pid === undefined) throw new Error(`there is no ${name}`);
    const now = Date.now();
    process.kill(pid, 'SIGKILL');
    return now;
  }

  async close(): Promise<void> {
    const ended = once(this.#child, 'exit');
    // The first signal stops the job gracefully, the second one at once.
    this.#child.kill('SIGINT');
    this.#child.kill('SIGTERM');
    if (this.#child.exitCode === null) await ended;
    await rm(this.#directory, { recursive: true, force: true });
  }
}

/** Loads the state as a page does, and reads its updates until the signal fires. */
async function readPage(address: string, token: string, signal: AbortSignal): Promise<void> {
  const options = { headers: { authorization: `Bearer ${token}` }, signal };
  let count = 0;
  try {
    await (await fetch(`${address}/state`, options)).arrayBuffer();
    const { body, status } = await fetch(`${address}/events`, options);
    if (status !== 200 || !body) throw new Error(`the page answers ${status}`);
    for await (const chunk of body) count += chunk.byteLength;
  } catch (error) {
    if (!signal.aborted) throw error;
  }
  if (count === 0) throw new Error('a page got no updates');
}

async function until<T>(what: string, find: () => T | undefined | Promise<T | undefined>): Promise<T> {
  for (const end = performance.now() + START_MS; performance.now() < end; ) {
    const found = await find();
    if (found !== undefined) return found;
    await sleep(100);
  }
  throw new Error(`${what} did not appear within ${START_MS / 1000} s`);
}

const sleep = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));
