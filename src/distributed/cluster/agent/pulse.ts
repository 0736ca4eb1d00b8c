/**
 * The pulse of a task: a thread of its own that reports to the watching tasks while the main thread is blocked. It calls
 * their agents with the credentials of this task, so it needs no port. At rest it only compares a counter.
 */
import { Worker } from 'node:worker_threads';
import { PACKAGE_ROOT } from '../../../base/files/package.js';
import type { Log } from '../../../base/text/log.js';
import type { Identity } from '../membership/map.js';
import type { Contact, MembershipSettings } from '../membership/types.js';
import { type Address, parseAddress } from '../spec/address.js';
import { clientTls, credentials, namesFor, type Security } from '../spec/security.js';

const THREAD = new URL('scripts/runtime/pulse-thread.mjs', PACKAGE_ROOT);
/** It has one timer, and at most one call to each peer. */
const MEMORY = {
  maxOldGenerationSizeMb: 32,
  maxYoungGenerationSizeMb: 2,
  codeRangeSizeMb: 8,
  stackSizeMb: 1,
};

export interface PulseOptions {
  readonly cluster: string;
  readonly security: Security;
  readonly settings: MembershipSettings;
  readonly onNotice?: Log | undefined;
}

export class Pulse {
  readonly #options: PulseOptions;
  readonly #beats = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
  readonly #thread: Worker;
  #sent = '';

  constructor(options: PulseOptions) {
    this.#options = options;
    const { heartbeatMs, suspectAfterMs } = options.settings;
    this.#thread = new Worker(THREAD, {
      workerData: { counter: this.#beats.buffer, intervalMs: Math.max(heartbeatMs, suspectAfterMs / 2) },
      // The loaders and preloaded modules of the main thread are not for this one.
      execArgv: [],
      env: {},
      resourceLimits: MEMORY,
      name: 'shoal-pulse',
    });
    this.#thread.on('error', ({ message }) => {
      const then = 'if the main thread is blocked for long, others will consider this task lost';
      options.onNotice?.(`the pulse thread has ended: ${message}; ${then}`, 'warn');
    });
    this.#thread.unref();
  }

  /** The main thread runs. Called at least twice per heartbeat. */
  beat(): void {
    Atomics.add(this.#beats, 0, 1);
  }

  /** Sets who this task is and who watches it. Cheap when nothing has changed. */
  update({ task, incarnation, nonce }: Identity, watchers: readonly Contact[]): void {
    const { cluster, security, settings } = this.#options;
    const tls = security.kind === 'tls' ? security.cert : '';
    const state = JSON.stringify([
      incarnation,
      tls,
      watchers.map((watcher) => [watcher.task, watcher.address]),
    ]);
    if (state === this.#sent) return;
    this.#sent = state;
    const peers = watchers.flatMap(({ task, address }) => {
      const parsed = addressOf(address);
      return parsed === undefined ? [] : [{ ...parsed, names: namesFor(task) }];
    });
    this.#thread.postMessage({
      peers,
      body: JSON.stringify({ cluster, from: { task, incarnation, nonce } }),
      headers: credentials(security),
      tls: security.kind === 'tls' ? withoutFunctions(clientTls(security, undefined)) : undefined,
      timeoutMs: Math.max(settings.suspectAfterMs, 500),
    });
  }

  async close(): Promise<void> {
    this.#thread.removeAllListeners('error').on('error', () => {});
    await this.#thread.terminate();
  }
}

/** Undefined for an address that a peer made up. */
function addressOf(text: string): Address | undefined {
  try {
    return parseAddress(text);
  } catch {
    return undefined;
  }
}

/** A message to a thread contains no functions. */
const withoutFunctions = <T extends object>(given: T) =>
  Object.fromEntries(Object.entries(given).filter(([, value]) => typeof value !== 'function'));
