/** Warns about a cluster that others on its network could read or control. */
import { type Address, formatAddress, isLoopback, parseAddress } from '../spec/address.js';
import type { JoinOptions } from './join-options.js';

/** @param given the address that the agent was to listen on */
export function reportExposure(
  { spec, self, security, onNotice }: JoinOptions,
  given: string,
  listening: Address,
): void {
  if (security.kind === 'none') {
    onNotice?.(
      `${self}: no certificates and no cluster token, so the agent listens on ${formatAddress(listening)} only, which other machines cannot reach`,
    );
  }
  const exposed = [given, ...spec.tasks.map(({ address }) => address)].find(
    (address) => !isLoopback(parseAddress(address, 'address', { allowPortZero: true }).host),
  );
  if (security.kind === 'token' && exposed !== undefined) {
    onNotice?.(
      `${self}: the cluster token travels over plain HTTP to and from ${exposed}. Whoever can read ` +
        'traffic on that network can control this cluster. Use certificates instead: shoal certs init',
      'warn',
    );
  }
}
