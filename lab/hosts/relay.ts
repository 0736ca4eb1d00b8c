/**
 * A slow cable for kernels without netem: forwards frames from one tap to the other with a delay, a rate limit and
 * loss. Runs in the hub's network namespace. Each line on stdin is a set of traits; the end of stdin ends the relay and
 * its taps.
 *
 *   relay.ts TAP TAP
 */
import { constants, openSync, readSync, writeSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { ShoalError } from '../../src/base/errors/errors.js';
import koffi from '../../src/tensorflow/native/library/ffi.js';
import type { NetworkTraits } from './host.js';

const TUNSETIFF = 0x400454ca;
const IFF_TAP_WITHOUT_HEADER = 0x1002;
const POLLIN = 1;
const POLL_MS = 100;
/** A frame is at most an Ethernet header and a 1500-byte packet. */
const FRAME_BYTES = 2048;
/** The length of the queue; further frames are dropped. */
const QUEUE_FRAMES = 10_000;
/** Frames read from one tap before the other tap and the timers are served. */
const BURST_FRAMES = 64;

const libc = koffi.load(null);
const ioctl = libc.func('int ioctl(int fd, unsigned long request, ...)');
const poll = libc.func('int poll(void *fds, unsigned long count, int timeout)');

function openTap(name: string): number {
  const tap = openSync('/dev/net/tun', constants.O_RDWR | constants.O_NONBLOCK);
  const request = Buffer.alloc(40);
  request.write(name, 'ascii');
  request.writeUInt16LE(IFF_TAP_WITHOUT_HEADER, 16);
  if (ioctl(tap, TUNSETIFF, 'void *', request) !== 0) {
    throw new ShoalError('SHOAL_UNSUPPORTED', `cannot create the tap ${name} (errno ${koffi.errno()})`);
  }
  return tap;
}

/** Waits off the main thread until a tap has a frame, with a timeout because a blocked thread delays exit. */
async function waitForFrames(taps: readonly number[]): Promise<void> {
  const fds = Buffer.alloc(8 * taps.length);
  taps.forEach((tap, i) => {
    fds.writeInt32LE(tap, 8 * i);
    fds.writeInt16LE(POLLIN, 8 * i + 4);
  });
  await new Promise<void>((resolve, reject) => {
    poll.async(fds, taps.length, POLL_MS, (error: Error | null) => (error ? reject(error) : resolve()));
  });
}

/** A tap that is being set up or removed has no frames and accepts none. */
function ignoreNotReady(error: unknown): undefined {
  const { code } = error as NodeJS.ErrnoException;
  if (code === 'EAGAIN' || code === 'EIO') return undefined;
  throw error;
}

class Direction {
  readonly #from: number;
  readonly #to: number;
  readonly #traits: () => NetworkTraits;
  readonly #queue: { readonly due: number; readonly frame: Buffer }[] = [];
  #lineFree = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(from: number, to: number, traits: () => NetworkTraits) {
    this.#from = from;
    this.#to = to;
    this.#traits = traits;
  }

  /** Reads the available frames. */
  receive(): void {
    for (let i = 0; i < BURST_FRAMES; i++) {
      const frame = Buffer.allocUnsafe(FRAME_BYTES);
      let length: number | undefined;
      try {
        length = readSync(this.#from, frame);
      } catch (error) {
        length = ignoreNotReady(error);
      }
      if (length === undefined) break;
      this.#accept(frame.subarray(0, length));
    }
    if (this.#timer === undefined) this.#deliver();
  }

  #accept(frame: Buffer): void {
    const { delayMs = 0, lossPct = 0, rateMbit } = this.#traits();
    if (Math.random() * 100 < lossPct || this.#queue.length >= QUEUE_FRAMES) return;
    const sendMs = rateMbit === undefined ? 0 : (frame.length * 8) / (rateMbit * 1000);
    this.#lineFree = Math.max(performance.now(), this.#lineFree) + sendMs;
    this.#queue.push({ due: this.#lineFree + delayMs, frame });
  }

  #deliver = (): void => {
    this.#timer = undefined;
    const now = performance.now();
    for (let head = this.#queue[0]; head !== undefined; head = this.#queue[0]) {
      if (head.due > now) {
        this.#timer = setTimeout(this.#deliver, Math.max(1, head.due - now));
        return;
      }
      this.#queue.shift();
      try {
        writeSync(this.#to, head.frame);
      } catch (error) {
        ignoreNotReady(error);
      }
    }
  };
}

let traits: NetworkTraits = {};
const lines = createInterface({ input: process.stdin });
lines.on('line', (line) => {
  traits = JSON.parse(line) as NetworkTraits;
});
lines.on('close', () => process.exit(0));

const [near = 'a0', far = 'b0'] = process.argv.slice(2);
const taps = [openTap(near), openTap(far)] as const;
const directions = [
  new Direction(taps[0], taps[1], () => traits),
  new Direction(taps[1], taps[0], () => traits),
];
console.log('ready');
for (;;) {
  await waitForFrames(taps);
  for (const direction of directions) direction.receive();
  await new Promise((resolve) => setImmediate(resolve));
}
