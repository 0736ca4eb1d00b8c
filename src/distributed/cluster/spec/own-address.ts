/**
 * The address of a task. A task outside the cluster specification, commonly an evaluator, listens on any free port of
 * the address from which this machine reaches the others.
 */
import { createSocket } from 'node:dgram';
import { lookup } from 'node:dns/promises';
import { hostname } from 'node:os';
import { messageOf, ShoalError } from '../../../base/errors/errors.js';
import { type Address, formatAddress, parseAddress } from './address.js';
import type { ClusterSpec } from './cluster-spec.js';
import type { TaskId } from './task-id.js';

export async function ownAddress({ tasks }: ClusterSpec): Promise<string> {
  const failures: string[] = [];
  for (const { address } of tasks) {
    try {
      return formatAddress({ host: await hostTowards(parseAddress(address)), port: 0 });
    } catch (error) {
      failures.push(`${address}: ${messageOf(error)}`);
    }
  }
  throw new ShoalError('SHOAL_CONFIG', `no route to any task of the cluster: ${failures.join('; ')}`, {
    hint: 'set --listen=HOST:PORT to an address that the other tasks can reach',
  });
}

/** Connecting a datagram socket sends nothing: it only selects the route. */
async function hostTowards({ host, port }: Address): Promise<string> {
  const { address, family } = await lookup(host);
  const socket = createSocket(family === 6 ? 'udp6' : 'udp4');
  try {
    await new Promise<void>((resolve, reject) => {
      socket.once('error', reject);
      socket.connect(port, address, () => resolve());
    });
    return socket.address().address;
  } finally {
    socket.close();
  }
}

/**
 * The address for other tasks. A task that listens on all interfaces uses its host in the specification, or hostname().
 */
export function advertisedAddress(
  listening: Address,
  { spec, self }: { readonly spec: ClusterSpec; readonly self: TaskId },
): string {
  if (listening.host !== '0.0.0.0' && listening.host !== '::') return formatAddress(listening);
  const named = spec.addressOf(self);
  return formatAddress({
    host: named === undefined ? hostname() : parseAddress(named).host,
    port: listening.port,
  });
}
