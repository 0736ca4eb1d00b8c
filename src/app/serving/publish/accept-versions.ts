/** Lets the models of a server be published to: the port, with its credentials, and what receives. */

import type { Log } from '../../../base/text/log.js';
import { formatAddress, isLoopback } from '../../../distributed/cluster/spec/address.js';
import { loadTls, type Security, tokenSecurity } from '../../../distributed/cluster/spec/security.js';
import type { ModelManager } from '../models/manager.js';
import { PublishPort } from './listen.js';
import { Receiver } from './receiver.js';

export interface AcceptOptions {
  readonly port: number;
  readonly host: string;
  readonly publishToken?: string | undefined;
  readonly publishCerts?: string | undefined;
  readonly publishKeep?: number | undefined;
  readonly log: Log;
}

interface Accepting {
  readonly kind: 'publish';
  readonly port: number;
  close(): Promise<void>;
}

const KEEP = 3;
const LOOPBACK = '127.0.0.1';

export async function acceptVersions(models: ModelManager, options: AcceptOptions): Promise<Accepting> {
  const { publishToken, publishCerts, publishKeep = KEEP, log } = options;
  const security = securityOf(publishToken, publishCerts);
  const isOpen = security.kind !== 'none' || isLoopback(options.host);
  const receiver = await Receiver.open({ models, keep: publishKeep, log });
  try {
    const listen = { host: isOpen ? options.host : LOOPBACK, port: options.port };
    const port = await PublishPort.listen({ receiver, listen, security });
    const who = { tls: 'holders of a certificate', token: 'holders of the token', none: 'this machine' };
    log(`versions are accepted at ${formatAddress(port.address)} from ${who[security.kind]}`);
    if (!isOpen)
      log(
        'Other machines cannot publish to this one: give it --publish_token_file or --publish_certs',
        'warn',
      );
    if (security.kind === 'token' && !isLoopback(options.host))
      log('The token of publishers can be read on the network: --publish_certs uses TLS', 'warn');
    return {
      kind: 'publish',
      port: port.address.port,
      close: async () => {
        await receiver.close();
        await port.close();
      },
    };
  } catch (error) {
    await receiver.close();
    throw error;
  }
}

function securityOf(token: string | undefined, certs: string | undefined): Security {
  if (certs !== undefined) return loadTls(certs, 'serving');
  return token === undefined ? { kind: 'none' } : tokenSecurity(token);
}
