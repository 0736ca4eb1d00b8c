/**
 * Publishes the exports of a job to serving processes while training runs. A newer export replaces one that is not
 * published yet. Whatever fails here is logged and tried again; training neither waits nor fails.
 *
 * A process that does not answer gets the newest version when it returns, as long as the job runs.
 */
import { backoffMs } from '../../../base/async/backoff.js';
import { sleep, withDeadline } from '../../../base/async/deadline.js';
import { describeError, isShoalError } from '../../../base/errors/errors.js';
import type { Log } from '../../../base/text/log.js';
import { loadTls, type Security, tokenSecurity } from '../../../distributed/cluster/spec/security.js';
import type { TaskId } from '../../../distributed/cluster/spec/task-id.js';
import type { PublishState } from '../../../training/train/task/training-events.js';
import { publishVersion, type ReadVersion, readVersion } from '../../serving/publish/publish.js';
import type { TargetResult } from '../../serving/publish/targets.js';
import type { PublishingOptions } from '../definition/publishing-options.js';

export interface PublishingParts {
  readonly log: Log;
  /** The task whose certificate is used; default: an operator's. */
  readonly task?: TaskId | undefined;
  readonly env?: NodeJS.ProcessEnv;
  /** Called when the state of an export at a serving process changes; default: none. */
  readonly onState?: (change: PublishChange) => void;
}

export interface PublishChange {
  readonly path: string;
  readonly step: number;
  readonly server: string;
  readonly state: PublishState;
  readonly text: string;
}

interface Export {
  readonly path: string;
  readonly step: number;
  /** Read once, however often it is published; again after a failure. */
  version?: ReadVersion | undefined;
}

const WAIT_SECS = 60;
const RETRY = { baseMs: 1000, maxMs: 15_000 };
/** After so many failures that are not those of the network, a version is given up. */
const MAX_FAILURES = 3;

export class JobPublishing {
  readonly #options: PublishingOptions;
  readonly #log: Log;
  readonly #onState: PublishingParts['onState'];
  readonly #security: Security;
  readonly #stop = new AbortController();
  #newest: Export | undefined;
  /** Ends a wait when there is a newer export. */
  #replaced = new AbortController();
  #running: Promise<void> | undefined;
  /** The processes without the newest version. */
  #lacking: readonly string[] = [];

  /** Throws if the credentials are missing or wrong. Called before training. */
  constructor(
    options: readonly string[] | PublishingOptions,
    { log, task, env = process.env, onState }: PublishingParts,
  ) {
    this.#options = 'to' in options ? options : { to: options };
    this.#log = log;
    this.#onState = onState;
    const certs = this.#options.certs ?? env.SHOAL_PUBLISH_CERTS;
    const token = env.SHOAL_PUBLISH_TOKEN;
    if (certs) this.#security = loadTls(certs, task ?? 'operator');
    else this.#security = token ? tokenSecurity(token) : { kind: 'none' };
  }

  /** Publishes an export in the background. */
  offer(path: string, step: number): void {
    if (this.#newest?.path === path || this.#stop.signal.aborted) return;
    this.#newest = { path, step };
    this.#lacking = this.#options.to;
    this.#replaced.abort();
    this.#replaced = new AbortController();
    this.#running ??= this.#run();
  }

  /** Waits until all processes have the last export, for a while, or until the signal fires. */
  async finish(signal?: AbortSignal): Promise<void> {
    const { waitSecs = WAIT_SECS } = this.#options;
    if (this.#running)
      await withDeadline(this.#running, 'the last publication', { timeoutMs: waitSecs * 1000, signal }).catch(
        () => {},
      );
    if (this.#newest && this.#lacking.length > 0)
      this.#log(
        `the last export, ${this.#newest.path}, is not published to ${this.#lacking.join(', ')}: ` +
          `shoal publish ${this.#newest.path} --to ${this.#lacking.join()}`,
        'error',
      );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    this.#replaced.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    try {
      for (let done: Export | undefined; done !== this.#newest && !this.#stop.signal.aborted; ) {
        done = this.#newest as Export;
        const { signal } = this.#replaced;
        await this.#publishAll(done, signal);
      }
    } finally {
      // In the same moment as the last look at what is newest: an offer that comes then starts again.
      this.#running = undefined;
    }
  }

  /** To all at once, then to each that was absent. */
  async #publishAll(one: Export, replaced: AbortSignal): Promise<void> {
    const started = performance.now();
    this.#setState(one, this.#options.to, 'publishing');
    const first = await this.#insist(one, this.#options.to, replaced);
    if (!first) return;
    const absent = first.filter(({ outcome }) => outcome.kind === 'absent').map(({ address }) => address);
    this.#lacking = absent;
    const seconds = ((performance.now() - started) / 1000).toFixed(1);
    const count = first.filter(hasVersion).length;
    for (const result of first) this.#reportResult(one, result);
    if (count > 0)
      this.#log(
        `published step ${one.step} to ${count} serving process${count === 1 ? '' : 'es'} in ${seconds} s`,
      );
    if (absent.length === 0) return;
    this.#log(`no answer from ${absent.join(', ')}: the version follows when they return`, 'warn');
    await Promise.all(absent.map((address) => this.#follow(one, address, replaced)));
  }

  async #follow(one: Export, address: string, replaced: AbortSignal): Promise<void> {
    for (let attempt = 0; !replaced.aborted && this.#newest === one; attempt++) {
      await sleep(backoffMs(attempt, RETRY), replaced).catch(() => {});
      if (replaced.aborted) return;
      const [result] = (await this.#insist(one, [address], replaced)) ?? [];
      if (!result) return;
      if (result.outcome.kind === 'absent') continue;
      this.#lacking = this.#lacking.filter((other) => other !== address);
      if (hasVersion(result)) this.#log(`${address} is back and has step ${one.step}`);
      this.#reportResult(one, result);
      return;
    }
  }

  /** A process that has rolled the version back, or has a newer one, keeps what it has. */
  #reportResult(one: Export, result: TargetResult): void {
    const { step } = one;
    const { address, outcome } = result;
    if (outcome.kind === 'absent') this.#setState(one, [address], 'waiting', 'it does not answer');
    else if (hasVersion(result)) this.#setState(one, [address], 'published');
    if (outcome.kind !== 'settled' || outcome.why === 'has') return;
    const why = outcome.why === 'withdrawn' ? 'it was rolled back there' : 'a newer version is there';
    this.#setState(one, [address], 'refused', why);
    this.#log(`${address} does not take step ${step}: ${why}`, 'warn');
  }

  #setState({ path, step }: Export, servers: readonly string[], state: PublishState, text = ''): void {
    for (const server of servers) this.#onState?.({ path, step, server, state, text });
  }

  /** Undefined if there is a newer export, or if it was given up. */
  async #insist(
    one: Export,
    to: readonly string[],
    replaced: AbortSignal,
  ): Promise<readonly TargetResult[] | undefined> {
    const { model, deadlineSecs } = this.#options;
    const { signal } = this.#stop;
    for (let failures = 0; ; ) {
      try {
        one.version ??= await readVersion(one.path, undefined, signal);
        const { targets } = await publishVersion(one.version, {
          to,
          model,
          deadlineSecs,
          security: this.#security,
          skipsAbsent: true,
          leavesNewer: true,
          // A publication that is under way is completed, unless the job ends.
          signal,
        });
        return targets;
      } catch (error) {
        if (replaced.aborted || signal.aborted) return undefined;
        one.version = undefined;
        failures += 1;
        const isLast = failures >= MAX_FAILURES || isShoalError(error, 'SHOAL_FORBIDDEN');
        const what = isLast ? 'training continues, the next export is published' : 'it is tried again';
        this.#log(`publishing step ${one.step} failed: ${describeError(error)}; ${what}`, 'error');
        this.#setState(one, to, isLast ? 'failed' : 'publishing', describeError(error));
        if (isLast) return undefined;
        await sleep(backoffMs(failures - 1, RETRY), replaced).catch(() => {});
        if (replaced.aborted) return undefined;
      }
    }
  }
}

const hasVersion = ({ outcome }: TargetResult): boolean =>
  outcome.kind === 'done' || (outcome.kind === 'settled' && outcome.why === 'has');
