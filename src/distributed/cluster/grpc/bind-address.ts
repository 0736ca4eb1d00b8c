/**
 * Binds TensorFlow's gRPC server to one address. TensorFlow binds its port on all interfaces, regardless of the cluster
 * spec, and the port has no authentication: any client that reaches it can run graphs and read files of the process.
 * The library calls `bind` through a writable jump slot. While a server starts, the slot points to a function that
 * replaces the wildcard address.
 *
 * gRPC binds on the thread that starts the server. That matters: a JavaScript callback can only run on the main thread,
 * which is inside the call that starts the server.
 */
import { isIPv4 } from 'node:net';
import type { Pointer } from '../../../tensorflow/native/library/c-api.js';
import koffi from '../../../tensorflow/native/library/ffi.js';
import { library } from '../../../tensorflow/native/library/library.js';
import { openJumpSlot, symbolAddress } from './jump-slot.js';

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

/** Runs `start`; replaces any wildcard address that the library binds meanwhile with `address`, an IP address. */
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
      // The address does not fit this socket: length 0 makes the call fail, so the server does not start.
      return realBind(socket, name, rewrite === 'impossible' ? 0 : length) as number;
    },
    koffi.pointer(koffi.proto('int', ['int', 'void *', 'uint32_t'])),
  );
  const before = word[0] as bigint;
  word[0] = callback;
  try {
    const result = start();
    const bind: BindOutcome =
      rewritten > 0
        ? { confined: true }
        : { confined: false, why: 'the library did not bind its port through the patched slot' };
    return { result, bind };
  } finally {
    word[0] = before;
    koffi.unregister(callback);
  }
}

function bindSlot() {
  if (process.platform !== 'linux') return { why: `not supported on ${process.platform}` };
  const { located } = library();
  const [inside, target] = [symbolAddress(located.ccPath, 'TF_NewServer'), symbolAddress(null, 'bind')];
  if (inside === undefined || target === undefined)
    return { why: 'the library does not export the gRPC server' };
  return openJumpSlot({ path: located.ccPath, inside, symbol: 'bind', target });
}

/** The address for an IPv6 socket: an IPv4 address in mapped form. */
function addressBytes(address: string): Uint8Array | undefined {
  const toBytes = koffi.load(null).func('inet_pton', 'int', ['int', 'str', 'void *']);
  const bytes = new Uint8Array(IPV6.bytes);
  const text = isIPv4(address) ? `::ffff:${address}` : address;
  return toBytes(AF_INET6, text, bytes) === 1 ? bytes : undefined;
}

const MAPPED_WILDCARD = '::ffff:0.0.0.0';

/** Replaces a wildcard with the address; `impossible` for an IPv6 address on an IPv4 socket. */
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
