/** File descriptors that Node does not manage. They are not inherited by child processes. */
import type { Socket } from 'node:net';
import { ShoalError } from '../../../base/errors/errors.js';
import koffi from '../library/ffi.js';

const isMac = process.platform === 'darwin';
const F_SETFD = 2;
const FD_CLOEXEC = 1;
const F_DUPFD_CLOEXEC = isMac ? 67 : 1030;
const SOL_SOCKET_MAC = 0xffff;
const SO_NOSIGPIPE_MAC = 0x1022;

/** Whether this system has what `duplicateOf` and the transfer thread use. */
export const hasDescriptors = process.platform === 'linux' || isMac;

type IntFunction = (...args: (number | string | Uint8Array | Int32Array)[]) => number;

interface Calls {
  readonly fcntl: IntFunction;
  readonly pipe: IntFunction;
  readonly write: IntFunction;
  readonly close: IntFunction;
  readonly setsockopt: IntFunction;
}

let bound: Calls | undefined;

function calls(): Calls {
  if (bound) return bound;
  const libc = koffi.load(null);
  bound = {
    fcntl: libc.func('fcntl', 'int', ['int', 'int', '...']),
    pipe: libc.func('pipe', 'int', ['void *']),
    write: libc.func('write', 'int64_t', ['int', 'void *', 'size_t']),
    close: libc.func('close', 'int', ['int']),
    setsockopt: libc.func('setsockopt', 'int', ['int', 'int', 'int', 'void *', 'uint32_t']),
  };
  return bound;
}

function checked(what: string, result: number): number {
  if (result >= 0) return result;
  throw new ShoalError('SHOAL_INTERNAL', `${what} failed with error ${koffi.errno()}`);
}

/** A pipe: the end to read from and the end to write to. */
export function makePipe(): readonly [number, number] {
  const ends = new Int32Array(2);
  checked('pipe', calls().pipe(ends));
  const [from, to] = ends as unknown as [number, number];
  for (const end of [from, to]) checked('fcntl', calls().fcntl(end, F_SETFD, 'int', FD_CLOEXEC));
  return [from, to];
}

const BYTE = new Uint8Array(1);

/** Writes one byte. */
export function writeByte(descriptor: number): void {
  calls().write(descriptor, BYTE, 1);
}

export function closeDescriptor(descriptor: number): void {
  calls().close(descriptor);
}

/**
 * Another descriptor of a connected socket; it does not block. Node reads nothing of the connection from then on, and the
 * caller destroys the socket. Throws if Node has read bytes that it has not passed on.
 */
export function duplicateOf(socket: Socket): number {
  const { _handle: handle } = socket as unknown as { _handle?: { fd: number; readStop(): number } | null };
  if (!handle || !(handle.fd >= 0)) throw new ShoalError('SHOAL_UNREACHABLE', 'the socket is closed');
  handle.readStop();
  if (socket.readableLength > 0) {
    throw new ShoalError('SHOAL_INTERNAL', 'a socket has bytes that Node has not passed on');
  }
  const made = checked('fcntl', calls().fcntl(handle.fd, F_DUPFD_CLOEXEC, 'int', 0));
  if (isMac) calls().setsockopt(made, SOL_SOCKET_MAC, SO_NOSIGPIPE_MAC, Int32Array.of(1), 4);
  return made;
}
