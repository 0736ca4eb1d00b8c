/** The TCP connections between two hosts of a lab, and their sudden end. */
import { ShoalError } from '../../src/base/errors/errors.js';
import type { LabHost } from './host.js';

export interface Connection {
  /** `address:port` at the host that was asked, and at the other one. */
  readonly local: string;
  readonly remote: string;
  /** Whether the host that was asked has opened it. */
  readonly isOutgoing: boolean;
}

/** The established connections of a host to another one. */
export async function connectionsTo(host: LabHost, other: LabHost): Promise<readonly Connection[]> {
  const [listening, established] = await Promise.all([
    addresses(host, ['-Htln']),
    addresses(host, ['-Htn', 'state', 'established', 'dst', other.address]),
  ]);
  const ports = new Set(listening.map(([local]) => portOf(local)));
  return established.map(([local, remote]) => ({ local, remote, isOutgoing: !ports.has(portOf(local)) }));
}

/**
 * Destroys a connection at the end of a host, as a failing network device or a firewall does: the processes at both ends
 * get an error. False if it has ended by itself.
 */
export async function cutConnection(host: LabHost, { local, remote }: Connection): Promise<boolean> {
  const end = ['src', local, 'dst', remote];
  const { stdout, stderr } = await host.exec('ss', ['-K', '-Htn', ...end]);
  if (stdout.trim() !== '') return true;
  const { stdout: left } = await host.exec('ss', ['-Htn', 'state', 'established', ...end]);
  if (left.trim() === '') return false;
  throw new ShoalError(
    'SHOAL_UNSUPPORTED',
    `${host.name}: the connection from ${local} to ${remote} was not destroyed${stderr ? `: ${stderr.trim()}` : ''}`,
    { hint: 'the kernel needs CONFIG_INET_DIAG_DESTROY' },
  );
}

/** The local and the remote address in each line of `ss`. */
async function addresses(
  host: LabHost,
  args: readonly string[],
): Promise<readonly (readonly [string, string])[]> {
  const { stdout } = await host.exec('ss', args);
  return stdout.split('\n').flatMap((line) => {
    const found = line.split(/\s+/).filter((word) => /:(\d+|\*)$/.test(word));
    const [local, remote] = found;
    return local !== undefined && remote !== undefined ? [[local, remote] as const] : [];
  });
}

const portOf = (address: string): string => address.slice(address.lastIndexOf(':') + 1);
