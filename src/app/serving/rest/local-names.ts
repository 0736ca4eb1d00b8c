/**
 * A page of another site may name this machine by a DNS name of its own, and so send requests that its browser takes for
 * those of the same site. A server that only this machine reaches has no such name: it refuses them.
 */
import { isIP } from 'node:net';
import { isLoopback } from '../../../distributed/cluster/spec/address.js';

/** Whether a Host header names this machine, or an address, which no DNS server can choose. Browsers always send one. */
export function isLocalName(host = 'localhost'): boolean {
  const name = host
    .replace(/:\d*$/, '')
    .replace(/^\[(.*)\]$/, '$1')
    .toLowerCase();
  return isLoopback(name) || name.endsWith('.localhost') || isIP(name) !== 0;
}
