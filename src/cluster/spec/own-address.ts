/**
 * The address of a task. One that stands outside the cluster's specification, as evaluators commonly do, listens on the
 * address from which this machine reaches the others, at any free port.
 */
import { createSocket } from 'node:dgram';
import { lookup } from 'node:dns/promises';
import { hostname } from 'node:os';
import { messageOf, ShoalError } from '../../errors/errors.js';
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
  throw new ShoalError('SHOAL_CONFIG', `No way to the cluster was found: ${failures.join('; ')}`, {
    hint: 'Tell where this task is to listen: --listen=HOST:PORT, an address that the others reach.',
  });
}

/** Connecting a datagram socket sends nothing: it only asks the system for the way. */
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

/** What others are told. For a task that listens on every interface: the host in the specification, or the machine's name. */
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
