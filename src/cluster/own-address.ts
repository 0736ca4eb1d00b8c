/**
 * Where a task listens that stands outside the cluster's specification, as evaluators commonly do: on the address from
 * which this machine reaches the others, at any free port.
 */
import { createSocket } from 'node:dgram';
import { lookup } from 'node:dns/promises';
import { messageOf, ShoalError } from '../errors/errors.js';
import { type Address, formatAddress, parseAddress } from './address.js';
import type { ClusterSpec } from './cluster-spec.js';

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
