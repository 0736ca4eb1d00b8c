/**
 * Connections that have not authenticated: whoever reaches the port can open them. Their number is limited, per address
 * and in total, and so is their time, over the TLS handshake and the first request together. At a limit the oldest one is
 * closed: a task authenticates within milliseconds, so it is not displaced by connections that stay idle.
 *
 * Connections that have authenticated do not count. Any number of tasks may share an address.
 */
import type { Socket } from 'node:net';
import type { Log } from '../../../base/text/log.js';

export interface StrangerLimits {
  /** More than connect at once while the agent does not answer: the backlog of the port. */
  readonly maxStrangersPerAddress: number;
  readonly maxStrangers: number;
  readonly strangerMs: number;
}

interface Stranger {
  readonly socket: Socket;
  readonly address: string;
  /** By the clock of `Strangers`. */
  readonly since: number;
}

const SWEEP_MS = 250;
/** Closing a connection costs time: many that are due at once are closed in several rounds. */
const MOST_PER_SWEEP = 200;
const NOTICE_MS = 60_000;

export class Strangers {
  readonly #limits: StrangerLimits;
  readonly #log: Log | undefined;
  /** All of them, and those of each address: the oldest first. */
  readonly #all = new Map<string, Stranger>();
  readonly #byAddress = new Map<string, Map<string, Stranger>>();
  #timer: NodeJS.Timeout | undefined;
  #sweptAt = 0;
  /** Time while this thread was not blocked: a blocked agent reads no request. */
  #clock = 0;
  #noticedAt = Number.NEGATIVE_INFINITY;

  constructor(limits: StrangerLimits, log: Log | undefined) {
    this.#limits = limits;
    this.#log = log;
  }

  get size(): number {
    return this.#all.size;
  }

  /** A connection was accepted. */
  add(socket: Socket): void {
    const { remoteAddress: address } = socket;
    // It has ended already.
    if (address === undefined) return;
    const key = keyOf(socket);
    const stranger: Stranger = { socket, address, since: this.#clock };
    const others = this.#byAddress.get(address) ?? new Map<string, Stranger>();
    this.#all.set(key, stranger);
    this.#byAddress.set(address, others.set(key, stranger));
    socket.once('close', () => {
      if (this.#all.get(key) === stranger) this.#remove(key);
    });
    if (others.size > this.#limits.maxStrangersPerAddress) this.#displace(others, `from ${address}`);
    else if (this.#all.size > this.#limits.maxStrangers) this.#displace(this.#all, 'in all');
    this.#sweptAt ||= performance.now();
    this.#timer ??= setInterval(() => this.#sweep(), SWEEP_MS).unref();
  }

  /** A connection has authenticated. */
  admit(socket: Pick<Socket, 'remoteAddress' | 'remotePort'>): void {
    this.#remove(keyOf(socket));
  }

  /** Closes all. */
  close(): void {
    for (const entry of [...this.#all]) this.#close(entry);
  }

  #displace(strangers: ReadonlyMap<string, Stranger>, where: string): void {
    const [oldest] = strangers;
    if (oldest === undefined) return;
    this.#close(oldest);
    const now = performance.now();
    if (now - this.#noticedAt < NOTICE_MS) return;
    this.#noticedAt = now;
    this.#log?.(
      `more than ${strangers.size} connections ${where} have not authenticated; the oldest ones are closed`,
      'warn',
    );
  }

  #sweep(): void {
    const now = performance.now();
    this.#clock += Math.min(now - this.#sweptAt, 2 * SWEEP_MS);
    this.#sweptAt = now;
    let closed = 0;
    for (const entry of this.#all) {
      if (this.#clock - entry[1].since < this.#limits.strangerMs || closed === MOST_PER_SWEEP) break;
      this.#close(entry);
      closed += 1;
    }
  }

  #close([key, { socket }]: readonly [string, Stranger]): void {
    this.#remove(key);
    socket.destroy();
  }

  #remove(key: string): void {
    const stranger = this.#all.get(key);
    if (stranger === undefined) return;
    this.#all.delete(key);
    const others = this.#byAddress.get(stranger.address);
    others?.delete(key);
    if (others?.size === 0) this.#byAddress.delete(stranger.address);
    if (this.#all.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#sweptAt = 0;
  }
}

/** A TLS socket and the socket below it have the same key. */
const keyOf = ({ remoteAddress, remotePort }: Pick<Socket, 'remoteAddress' | 'remotePort'>): string =>
  `${remoteAddress} ${remotePort}`;
