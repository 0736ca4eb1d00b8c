/** The error of a server that cannot listen on its address. */
import { messageOf, ShoalError } from '../../../base/errors/errors.js';
import { type Address, formatAddress } from '../spec/address.js';

export interface ListenErrorOptions {
  readonly task?: string | undefined;
  /** What to do if another process uses the port. */
  readonly inUse: string;
}

/** `who` is the server, for example `the agent of /job:ps/task:1`; `cause` is the error of Node's socket. */
export function listenError(
  who: string,
  address: Address,
  cause: NodeJS.ErrnoException,
  { task, inUse }: ListenErrorOptions,
): ShoalError {
  const what = `${who} cannot listen on ${formatAddress(address)}`;
  const details = { cause, task };
  // With port 0 the system chooses a free port.
  if (cause.code === 'EADDRINUSE' && address.port !== 0) {
    return new ShoalError('SHOAL_ADDRESS_IN_USE', `${what}: another process uses this port`, {
      ...details,
      hint: inUse,
    });
  }
  if (cause.code === 'EADDRNOTAVAIL') {
    return new ShoalError('SHOAL_CONFIG', `${what}: it is not an address of this machine`, {
      ...details,
      hint: 'start the task on the machine with this address, or set --listen=HOST:PORT',
    });
  }
  return new ShoalError('SHOAL_CONFIG', `${what}: ${messageOf(cause)}`, details);
}
