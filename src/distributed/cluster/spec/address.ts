/** `host:port` addresses, with IPv6 hosts in brackets. */
import { isIPv4, isIPv6 } from 'node:net';
import { ShoalError } from '../../../base/errors/errors.js';

export interface Address {
  /** Without brackets. */
  readonly host: string;
  readonly port: number;
}

const HOST_NAME = /^(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]{0,62})(\.[a-z0-9_]([a-z0-9_-]{0,62}))*\.?$/i;

function bad(where: string, text: string, why: string, hint?: string): ShoalError {
  return new ShoalError('SHOAL_CONFIG', `${where}: "${text}" is not an address: ${why}`, {
    hint: hint ?? 'write host:port, with an IPv6 host in brackets: [::1]:2222',
  });
}

export interface AddressRules {
  /** Accept port 0, any free port: valid for listening only; default: false. */
  readonly allowPortZero?: boolean;
}

/** Parses `host:port`; `where` names the source in errors, for example `cluster.ps[1]`. */
export function parseAddress(text: string, where = 'address', rules: AddressRules = {}): Address {
  const bracketed = /^\[([^\]]*)\](?::(.*))?$/s.exec(text);
  const split = bracketed ?? /^([^:]*)(?::([^:]*))?$/s.exec(text);
  if (split === null) {
    const why = isIPv6(text) ? 'an IPv6 host needs brackets' : 'it has several colons';
    throw bad(where, text, why);
  }
  const [, host = '', portText] = split;
  if (bracketed !== null ? !isIPv6(host) : !isHost(host)) {
    throw bad(where, text, host === '' ? 'it has no host' : `"${host}" is not a host name or an IP address`);
  }
  if (portText === undefined || portText === '') {
    throw bad(where, text, 'it has no port', `write a port: "${text.replace(/:$/, '')}:2222"`);
  }
  const port = /^\d{1,5}$/.test(portText) ? Number(portText) : Number.NaN;
  if (!(port <= 65535) || (port === 0 && rules.allowPortZero !== true)) {
    throw bad(where, text, `"${portText}" is not a valid port`, 'a port is a number from 1 to 65535');
  }
  return { host: host.toLowerCase(), port };
}

function isHost(host: string): boolean {
  if (isIPv4(host)) return true;
  // Four numbers that are not an IPv4 address are a typo, not a host name.
  return HOST_NAME.test(host) && !/^[\d.]+$/.test(host);
}

export function formatAddress({ host, port }: Address): string {
  return isIPv6(host) ? `[${host}]:${port}` : `${host}:${port}`;
}

/** Whether the host is a loopback address. A name other than localhost counts as public. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || (isIPv4(host) && host.startsWith('127.'));
}
