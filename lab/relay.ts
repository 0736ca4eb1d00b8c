/**
 * A slow cable, for kernels without netem: frames read from one tap are written to the other after a delay,
 * at a rate, or not at all. Runs in the hub's network namespace; each line on stdin is a set of traits; the
 * end of stdin ends it, and the taps with it.
 *
 *   relay.ts TAP TAP
 */
import { type FileHandle, open } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import koffi from 'koffi';
import { ShoalError } from '../src/errors/errors.js';
import type { NetworkTraits } from './host.js';

const TUNSETIFF = 0x400454ca;
const IFF_TAP_WITHOUT_HEADER = 0x1002;
/** As many frames wait for their time as in netem's default queue for a slow line; more are lost. */
const QUEUE_FRAMES = 1000;
const FRAME_BYTES = 65_536;

async function openTap(name: string): Promise<FileHandle> {
  const tap = await open('/dev/net/tun', 'r+');
  const ioctl = koffi.load(null).func('int ioctl(int fd, unsigned long request, ...)');
  const request = Buffer.alloc(40);
  request.write(name, 'ascii');
  request.writeUInt16LE(IFF_TAP_WITHOUT_HEADER, 16);
  if (ioctl(tap.fd, TUNSETIFF, 'void *', request) !== 0) {
    throw new ShoalError('SHOAL_UNSUPPORTED', `the tap ${name} could not be made (error ${koffi.errno()})`);
  }
  return tap;
}

class Direction {
  readonly #from: FileHandle;
  readonly #to: FileHandle;
  readonly #traits: () => NetworkTraits;
  readonly #queue: { readonly due: number; readonly frame: Buffer }[] = [];
  #lineFree = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(from: FileHandle, to: FileHandle, traits: () => NetworkTraits) {
    this.#from = from;
    this.#to = to;
    this.#traits = traits;
  }

  async run(): Promise<never> {
    const buffer = Buffer.allocUnsafe(FRAME_BYTES);
    for (;;) {
      let bytesRead: number;
      try {
        ({ bytesRead } = await this.#from.read(buffer, 0, FRAME_BYTES, null));
      } catch (error) {
        // The tap exists from the first moment, but carries frames only once the hub has set it up.
        if ((error as NodeJS.ErrnoException).code !== 'EIO') throw error;
        await new Promise((resolve) => setTimeout(resolve, 1));
        continue;
      }
      this.#accept(Buffer.from(buffer.subarray(0, bytesRead)));
    }
  }

  #accept(frame: Buffer): void {
    const { delayMs = 0, lossPct = 0, rateMbit } = this.#traits();
    if (Math.random() * 100 < lossPct || this.#queue.length >= QUEUE_FRAMES) return;
    const now = performance.now();
    const sendMs = rateMbit === undefined ? 0 : (frame.length * 8) / (rateMbit * 1000);
    this.#lineFree = Math.max(now, this.#lineFree) + sendMs;
    this.#queue.push({ due: this.#lineFree + delayMs, frame });
    if (this.#timer === undefined) this.#deliver();
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
      this.#to.write(head.frame, 0, head.frame.length, null).catch((error: NodeJS.ErrnoException) => {
        // A cable that is being set up or taken away loses frames.
        if (error.code !== 'EIO') throw error;
      });
    }
  };
}

let traits: NetworkTraits = {};
const lines = createInterface({ input: process.stdin });
lines.on('line', (line) => {
  traits = JSON.parse(line) as NetworkTraits;
});
// A read of a silent tap never returns, so there is nothing to wait for.
lines.on('close', () => process.exit(0));

const [near = 'a0', far = 'b0'] = process.argv.slice(2);
const taps = [await openTap(near), await openTap(far)] as const;
console.log('ready');
await Promise.race([
  new Direction(taps[0], taps[1], () => traits).run(),
  new Direction(taps[1], taps[0], () => traits).run(),
]);
