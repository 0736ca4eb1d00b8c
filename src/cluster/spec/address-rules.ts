/** The rule about TensorFlow's own port, which anybody can use who reaches it. */

import { ShoalError } from '../../errors/errors.js';
import { isLoopback, parseAddress } from './address.js';
import type { ClusterConfig } from './config.js';

/** Refuses a task that other machines are to reach, unless its user accepts what that means. */
export function refuseOpenNetwork({ spec, task, listen, insecureNetwork }: ClusterConfig): void {
  if (insecureNetwork.value) return;
  // A task that stands outside the spec listens where the others reach it.
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
    `${who} is reached by other machines, and so is its TensorFlow server`,
    {
      hint:
        'TensorFlow’s port knows no passwords: whoever reaches it can run any graph and read and write files. ' +
        'On a network where everybody is trusted give --insecure_network or SHOAL_INSECURE_NETWORK=1. ' +
        'The agents’ certificates and tokens do not protect that port',
    },
  );
}
