/** Protects TensorFlow's own port, which has no authentication. */

import { ShoalError } from '../../../base/errors/errors.js';
import { isLoopback, parseAddress } from './address.js';
import type { ClusterConfig, EngineKind } from './config.js';

/** Refuses a task that other machines can reach, unless the user accepts the risk. */
export function refuseOpenNetwork(
  { spec, task, listen, insecureNetwork }: ClusterConfig,
  engine: EngineKind,
): void {
  // Only TensorFlow's engine has a port without authentication.
  if (insecureNetwork.value || engine === 'direct') return;
  // A task outside the specification listens on an address that the others can reach.
  const known = listen.value ?? spec.addressOf(task);
  for (const address of known === undefined ? spec.tasks.map((other) => other.address) : [known]) {
    const { host } = parseAddress(address, `address of ${task}`, { allowPortZero: true });
    refuseOpenHost(
      host,
      known === undefined ? `${task} in a cluster with ${address}` : `${task} at ${address}`,
    );
  }
}

export function refuseOpenHost(host: string, who: string): void {
  if (isLoopback(host)) return;
  throw new ShoalError(
    'SHOAL_CONFIG',
    `${who} is reachable from other machines, and so is its TensorFlow server`,
    {
      hint:
        'TensorFlow’s port has no authentication: whoever reaches it can run any graph and read and write files. ' +
        'Use --engine=direct, which does not open that port, or on a trusted network set --insecure-network or ' +
        'SHOAL_INSECURE_NETWORK=1. ' +
        'The agents’ certificates and tokens do not protect that port',
    },
  );
}
