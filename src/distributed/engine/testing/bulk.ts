/** Bulk channels between two connections of this process. */
import type { Socket } from 'node:net';
import { duplicateOf } from '../../../tensorflow/native/threads/descriptors.js';
import { transferThread } from '../../../tensorflow/native/threads/transfer-thread.js';
import type { BulkChannel } from '../wire/bulk-channel.js';
import type { Connection } from '../wire/connection.js';
import type { SocketPairs } from './socket-pair.js';

function taken(socket: Socket): number {
  try {
    return duplicateOf(socket);
  } finally {
    socket.destroy();
  }
}

/** Gives both connections a bulk channel. */
export async function openBulk(
  pairs: SocketPairs,
  a: Connection,
  b: Connection,
): Promise<readonly [BulkChannel, BulkChannel]> {
  const thread = await transferThread();
  const { client, server } = await pairs.pair();
  const channels = [a.receiveBulk(thread, taken(client)), b.receiveBulk(thread, taken(server))] as const;
  a.sendBulk();
  b.sendBulk();
  return channels;
}

/** Gives one connection a bulk channel; returns the other end of it. */
export async function openHalf(pairs: SocketPairs, connection: Connection): Promise<Socket> {
  const thread = await transferThread();
  const { client, server } = await pairs.pair();
  connection.receiveBulk(thread, taken(client));
  connection.sendBulk();
  return server;
}
