// A thread beside the main thread of a task. While the main thread is blocked, it reports to the watching tasks that the
// process runs: see docs/design/028-pulse-thread.md. It is plain Node, so that the sources, the modules of the build and
// the bundle all start this file, and it imports nothing of the package, so that it needs little memory.
import { Agent, request } from 'node:http';
import { Agent as TlsAgent, request as tlsRequest } from 'node:https';
import { parentPort, workerData } from 'node:worker_threads';

const { counter, intervalMs } = workerData;
/** The main thread raises it several times per interval. */
const beats = new Int32Array(counter);

/** What to send, with which credentials, to whom: see src/distributed/cluster/agent/pulse.ts. */
let order;
let seen = Atomics.load(beats, 0);
let lookedAt = performance.now();
/** The connections; undefined while the main thread runs. */
let pool;
const inFlight = new Set();

parentPort.on('message', (message) => {
  order = message;
});
setInterval(look, intervalMs);

function look() {
  const now = performance.now();
  const beat = Atomics.load(beats, 0);
  // A process that was stopped with all its threads gives the main thread a chance to run first.
  const wasStopped = now - lookedAt > 2 * intervalMs;
  const isBlocked = beat === seen && !wasStopped;
  seen = beat;
  lookedAt = now;
  if (isBlocked) for (const peer of order?.peers ?? []) report(peer);
  else close();
}

function close() {
  pool?.destroy();
  pool = undefined;
}

function report({ host, port, names }) {
  const key = `${host} ${port}`;
  if (inFlight.has(key)) return;
  inFlight.add(key);
  const { tls, headers, body, timeoutMs } = order;
  pool ??= new (tls ? TlsAgent : Agent)({ keepAlive: true, maxSockets: 1, maxFreeSockets: 1 });
  const length = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
  const call = (tls ? tlsRequest : request)({
    host,
    port,
    path: '/membership/pulse',
    method: 'POST',
    agent: pool,
    headers: { ...headers, ...length },
    ...(tls && { ...tls, checkServerIdentity: (_host, { subject }) => unexpected(subject.CN, names) }),
  });
  const timer = setTimeout(() => call.destroy(new Error('timeout')), timeoutMs);
  // The main thread reports why a peer cannot be reached.
  call.on('error', () => {});
  call.on('response', (response) => response.on('error', () => {}).resume());
  call.on('close', () => {
    clearTimeout(timer);
    inFlight.delete(key);
  });
  call.end(body);
}

function unexpected(name, names) {
  return names.includes(name) ? undefined : new Error(`the certificate of the peer is for ${name}`);
}
