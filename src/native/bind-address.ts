/**
 * Confines TensorFlow's gRPC server to one address. TensorFlow binds its port on every interface, whatever the cluster
 * names, and the port has no authentication: whoever reaches it can run any graph and read any file of the process.
 * The library calls `bind` through a slot that can be written. While a server starts, the slot leads to a function
 * that replaces the wildcard address.
 *
 * gRPC binds on the thread that starts the server. That matters: a JavaScript callback can only run on the main thread,
 * which is inside of the call that starts the server.
 */
import { isIPv4 } from 'node:net';
import koffi from 'koffi';
import type { Pointer } from './c-api.js';
import { addressOf, openJumpSlot } from './jump-slot.js';
import { library } from './library.js';

const AF_INET = 2;
const AF_INET6 = 10;
/** sockaddr_in: family, port, address. sockaddr_in6: family, port, flow, address, scope. */
const IPV4 = { at: 4, bytes: 4 };
const IPV6 = { at: 8, bytes: 16 };

export type BindOutcome =
  | { readonly confined: true }
  /** The server listens on every interface. */
  | { readonly confined: false; readonly why: string };

export interface Confined<T> {
  readonly result: T;
  readonly bind: BindOutcome;
}

/** Runs `start` so that a wildcard address which the library binds meanwhile becomes `address`, an IP address. */
export function confineBinds<T>(address: string, start: () => T): Confined<T> {
  const { word, why } = bindSlot();
  if (word === undefined) return { result: start(), bind: { confined: false, why } };
  const bytes = addressBytes(address);
  if (bytes === undefined)
    return { result: start(), bind: { confined: false, why: `${address} is not an IP address` } };
  const realBind = koffi.load(null).func('bind', 'int', ['int', 'void *', 'uint32_t']);
  let rewritten = 0;
  const callback = koffi.register(
    (socket: number, given: Pointer, length: number): number => {
      const name = Uint8Array.from(new Uint8Array(koffi.view(given, length)));
      const rewrite = rewriteWildcard(name, bytes);
      if (rewrite === 'rewritten') rewritten++;
      // No address to give to this socket: the length of 0 makes the call fail, and the server not start.
      return realBind(socket, name, rewrite === 'impossible' ? 0 : length) as number;
    },
    koffi.pointer(koffi.proto('int', ['int', 'void *', 'uint32_t'])),
  );
  const before = word[0] as bigint;
  word[0] = callback;
  try {
    const result = start();
    const bind: BindOutcome =
      rewritten > 0 ? { confined: true } : { confined: false, why: 'the library binds its port elsewhere' };
    return { result, bind };
  } finally {
    word[0] = before;
    koffi.unregister(callback);
  }
}

function bindSlot() {
  if (process.platform !== 'linux') return { why: `not known how on ${process.platform}` };
  const { located } = library();
  const [inside, target] = [addressOf(located.ccPath, 'TF_NewServer'), addressOf(null, 'bind')];
  if (inside === undefined || target === undefined) return { why: 'the library has no server to look at' };
  return openJumpSlot({ path: located.ccPath, inside, symbol: 'bind', target });
}

/** The address as an IPv6 socket takes it: an IPv4 address in its mapped form. */
function addressBytes(address: string): Uint8Array | undefined {
  const toBytes = koffi.load(null).func('inet_pton', 'int', ['int', 'str', 'void *']);
  const bytes = new Uint8Array(IPV6.bytes);
  const text = isIPv4(address) ? `::ffff:${address}` : address;
  return toBytes(AF_INET6, text, bytes) === 1 ? bytes : undefined;
}

const MAPPED_WILDCARD = '::ffff:0.0.0.0';

/** Puts the address in the place of a wildcard; `impossible` for an IPv6 address and an IPv4 socket. */
function rewriteWildcard(name: Uint8Array, address: Uint8Array): 'rewritten' | 'untouched' | 'impossible' {
  const family = new DataView(name.buffer, name.byteOffset).getUint16(0, true);
  const { at, bytes } = family === AF_INET6 ? IPV6 : IPV4;
  if ((family !== AF_INET && family !== AF_INET6) || name.length < at + bytes) return 'untouched';
  const current = name.subarray(at, at + bytes);
  const isWildcard =
    current.every((byte) => byte === 0) ||
    (family === AF_INET6 && Buffer.from(addressBytes(MAPPED_WILDCARD)!).equals(current));
  if (!isWildcard) return 'untouched';
  const isMapped = address.subarray(0, 12).every((byte, i) => byte === (i < 10 ? 0 : 0xff));
  if (family === AF_INET && !isMapped) return 'impossible';
  name.set(family === AF_INET ? address.subarray(12) : address, at);
  return 'rewritten';
}
