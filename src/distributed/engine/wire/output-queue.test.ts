import { Duplex } from 'node:stream';
import { expect, it } from 'vitest';
import { heldArray, OutputQueue } from './output-queue.js';

/** A socket whose writes end when the test says so. */
function slowSocket() {
  const writes: { readonly bytes: number[]; readonly end: () => void }[] = [];
  const socket = new Duplex({
    read() {},
    write: (chunk: Uint8Array, _encoding, done) => void writes.push({ bytes: [...chunk], end: done }),
    writev: (chunks, done) =>
      void writes.push({ bytes: chunks.flatMap(({ chunk }) => [...(chunk as Uint8Array)]), end: done }),
  });
  return { socket, writes };
}

function put(queue: OutputQueue, value: number): void {
  const { block, at } = queue.reserve(8);
  block.bytes.fill(value, at, at + 8);
}

const filled = (...values: number[]) => values.flatMap((value) => Array<number>(8).fill(value));
const settled = () => new Promise<void>((resolve) => setImmediate(resolve));

it('gathers small pieces while earlier ones are being written', async () => {
  const { socket, writes } = slowSocket();
  const queue = new OutputQueue(socket, () => {});
  put(queue, 1);
  queue.flush();
  for (const value of [2, 3, 4]) {
    put(queue, value);
    queue.flush();
  }
  expect(writes.map(({ bytes }) => bytes)).toEqual([filled(1)]);
  writes[0]?.end();
  await settled();
  expect(writes.map(({ bytes }) => bytes)).toEqual([filled(1), filled(2, 3, 4)]);
  writes[1]?.end();
  await settled();
  expect(queue.pendingBytes).toBe(0);
});

it('does not hold back large pieces', async () => {
  const { socket, writes } = slowSocket();
  const queue = new OutputQueue(socket, () => {});
  put(queue, 1);
  queue.flush();
  queue.append(heldArray(new Uint8Array(200_000)), 200_000);
  queue.flush();
  // The stream has it, and writes it next.
  expect(socket.writableLength).toBe(200_008);
  writes[0]?.end();
  await settled();
  expect(writes[1]?.bytes).toHaveLength(200_000);
});
