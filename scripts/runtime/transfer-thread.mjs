// A thread that moves the bytes of large tensors between sockets and TensorFlow's memory: see
// docs/design/031-bulk-channel.md. It waits in poll(2) for all sockets at once and never blocks on one of them. It is plain
// Node, so that the sources, the modules of the build and the bundle all start this file.
//
// It takes orders (src/tensorflow/native/threads/transfer-thread.ts) from a message port; a byte in a pipe wakes it for them. Of a channel
// that it has reported as ended it touches neither the descriptor nor memory any more.
import { createRequire } from 'node:module';
import { constants } from 'node:os';
import { getSystemErrorName } from 'node:util';
import { receiveMessageOnPort, workerData } from 'node:worker_threads';

const { port, state, pipe } = workerData;
const koffi = createRequire(import.meta.url)(workerData.koffi);

/** Positions in the state that both threads see. */
const STOP = 0;
const WOKEN = 1;
/** The most bytes of one call: channels and directions take turns. */
const PART_BYTES = 4 << 20;
/** Bounds the time until the thread ends with its process, if that cannot wake it. */
const POLL_MS = 500;
const isMac = process.platform === 'darwin';
const POLLIN = 1;
const POLLOUT = 4;
/** POLLERR, POLLHUP, POLLNVAL. Linux reports with POLLRDHUP that the peer has closed its end. */
const POLLRDHUP = isMac ? 0 : 0x2000;
const BROKEN = 8 | 16 | 32 | POLLRDHUP;
/** Sockets of macOS have SO_NOSIGPIPE instead of MSG_NOSIGNAL. */
const MSG_DONTWAIT = isMac ? 0x80 : 0x40;
const MSG_NOSIGNAL = isMac ? 0 : 0x4000;
const { EAGAIN, EWOULDBLOCK, EINTR } = constants.errno;

const libc = koffi.load(null);
const poll = libc.func('poll', 'int', ['void *', isMac ? 'unsigned int' : 'unsigned long', 'int']);
const send = libc.func('send', 'int64_t', ['int', 'void *', 'size_t', 'int']);
const recv = libc.func('recv', 'int64_t', ['int', 'void *', 'size_t', 'int']);
const read = libc.func('read', 'int64_t', ['int', 'void *', 'size_t']);
const close = libc.func('close', 'int', ['int']);

const beats = new Int32Array(state);
const channels = new Map();
/** struct pollfd { int fd; short events; short revents; } of the pipe and of each channel. */
let polled = new Int32Array(2 * 16);
const wakeBytes = new Uint8Array(64);
let progress = new Set();
let ended = [];

port.postMessage({ ready: true });
while (Atomics.load(beats, STOP) === 0) {
  // Orders that are sent from here on write to the pipe again.
  Atomics.store(beats, WOKEN, 0);
  for (let order = receiveMessageOnPort(port); order; order = receiveMessageOnPort(port)) {
    for (const each of order.message) take(each);
  }
  report();
  waitAndTransfer();
  report();
}
process.exit();

function take({ id, open, send: sent, receive, close: isClosed }) {
  if (open) {
    const { descriptor, counters } = open;
    channels.set(id, { id, descriptor, counters, sends: [], receives: [], sent: 0, received: 0 });
    return;
  }
  const channel = channels.get(id);
  // It has ended meanwhile, which is reported.
  if (!channel) return;
  if (sent) channel.sends.push({ ...sent, at: 0 });
  else if (receive) channel.receives.push({ ...receive, at: 0 });
  else if (isClosed) end(channel);
}

function report() {
  if (progress.size === 0 && ended.length === 0) return;
  const done = [];
  for (const channel of progress) {
    done.push({ id: channel.id, sent: channel.sent, received: channel.received });
    channel.sent = 0;
    channel.received = 0;
  }
  port.postMessage({ done, ended });
  progress = new Set();
  ended = [];
}

function waitAndTransfer() {
  const all = [...channels.values()];
  const count = all.length + 1;
  if (polled.length < 2 * count) polled = new Int32Array(4 * count);
  polled[0] = pipe;
  polled[1] = POLLIN;
  for (const [at, { descriptor, sends, receives }] of all.entries()) {
    polled[2 * at + 2] = descriptor;
    polled[2 * at + 3] = (sends.length > 0 ? POLLOUT : 0) | (receives.length > 0 ? POLLIN : 0) | POLLRDHUP;
  }
  if (poll(polled, count, POLL_MS) <= 0) return;
  if (polled[1] >>> 16 !== 0) read(pipe, wakeBytes, wakeBytes.length);
  for (const [at, channel] of all.entries()) {
    const found = polled[2 * at + 3] >>> 16;
    if (found !== 0) serve(channel, found);
  }
}

function serve(channel, found) {
  const { receives, sends } = channel;
  let moved = 0;
  if ((found & POLLIN) !== 0 && receives.length > 0) {
    const size = transfer(channel, recv, receives, MSG_DONTWAIT);
    if (size === undefined) return;
    if (size === 0) return end(channel, 'it closed the connection');
    if (size > 0) {
      Atomics.add(channel.counters, 1, 1);
      channel.received += settle(channel, receives);
      moved += 1;
    }
  }
  if ((found & POLLOUT) !== 0 && sends.length > 0) {
    const size = transfer(channel, send, sends, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (size === undefined) return;
    if (size > 0) {
      Atomics.add(channel.counters, 0, 1);
      channel.sent += settle(channel, sends);
      moved += 1;
    }
  }
  // What has arrived is read first.
  if ((found & BROKEN) !== 0 && moved === 0) end(channel, 'it closed the connection');
}

/** How many bytes were moved, -1 if none can be now; undefined if the channel has ended. */
function transfer(channel, call, jobs, flags) {
  const job = jobs[0];
  const size = Math.min(PART_BYTES, job.length - job.at);
  const moved = Number(call(channel.descriptor, job.pointer + BigInt(job.at), size, flags));
  if (moved >= 0) {
    job.at += moved;
    return moved;
  }
  const code = koffi.errno();
  if (code === EAGAIN || code === EWOULDBLOCK || code === EINTR) return -1;
  end(channel, nameOf(code));
  return undefined;
}

/** Removes the job if it is complete; returns how many were. */
function settle(channel, jobs) {
  if (jobs[0].at < jobs[0].length) return 0;
  jobs.shift();
  progress.add(channel);
  return 1;
}

function end(channel, reason) {
  channels.delete(channel.id);
  close(channel.descriptor);
  ended.push({ id: channel.id, reason });
}

function nameOf(code) {
  try {
    return getSystemErrorName(-code);
  } catch {
    return `error ${code}`;
  }
}
