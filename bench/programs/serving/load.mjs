/**
 * Generates requests to a server of models, over gRPC or REST, and measures rate and latency. The closed loop keeps a
 * number of requests in flight on each connection; the open loop sends at a fixed rate, whatever the server does, and
 * counts latency from when a request was due.
 */
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { GrpcConnection } from '../../serving/grpc-connection.mjs';
import { RestConnection } from '../../serving/rest-connection.mjs';

const WAIT_MS = 20_000;

const quantile = (sorted, part) => sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] ?? 0;

async function run({ protocol, port, path, file, connections, inFlight = 1, seconds, rate }) {
  const message = readFileSync(file);
  const latencies = [];
  let failed = 0;
  let firstError;
  const open = new Set();
  const make = () => {
    const started = new Map();
    const connection = new (protocol === 'grpc' ? GrpcConnection : RestConnection)({
      port,
      path,
      message,
      onReply(id, bytes) {
        latencies.push(performance.now() - started.get(id));
        started.delete(id);
        if (bytes === 0) failed += 1;
        onFree(one);
      },
      onError: (error) => {
        firstError ??= error;
      },
    });
    const one = {
      connection,
      started,
      send(due = performance.now()) {
        started.set(connection.send(), due);
      },
    };
    open.add(one);
    return one;
  };
  let onFree = () => {};
  for (let i = 0; i < connections; i++) make();
  try {
    const ready = Promise.all([...open].map((one) => one.connection.ready));
    await Promise.race([ready, new Promise((resolve) => setTimeout(resolve, WAIT_MS))]);
    const cpu = process.cpuUsage();
    const start = performance.now();
    const end = start + seconds * 1000;
    await new Promise((resolve, reject) => {
      const check = setInterval(() => {
        const late = performance.now() > end + WAIT_MS;
        if (firstError || late) reject(firstError ?? new Error(`no reply for ${WAIT_MS} ms`));
      }, 200);
      const finish = () => {
        clearInterval(check);
        resolve();
      };
      const isIdle = () => [...open].every((one) => one.started.size === 0);
      if (rate === undefined) {
        onFree = (one) => {
          if (performance.now() < end) one.send();
          else if (isIdle()) finish();
        };
        for (const one of open) for (let i = 0; i < inFlight; i++) one.send();
        return;
      }
      openLoop({ open, rate, start, end, isIdle, finish, limit: protocol === 'grpc' ? Infinity : 1 }, (f) => {
        onFree = f;
      });
    });
    const took = (performance.now() - start) / 1000;
    const { user, system } = process.cpuUsage(cpu);
    latencies.sort((a, b) => a - b);
    return {
      perSecond: latencies.length / took,
      p50: quantile(latencies, 0.5),
      p99: quantile(latencies, 0.99),
      count: latencies.length,
      failed,
      // The part of one core that the generator used; near 1 it would be the bottleneck.
      busy: (user + system) / 1e6 / took,
    };
  } finally {
    for (const one of open) one.connection.close();
  }
}

/** Requests that are due wait in a queue for a connection that can take one more (`limit` for each). */
function openLoop({ open, rate, start, end, isIdle, finish, limit }, setOnFree) {
  const waiting = [];
  const all = [...open];
  let sent = 0;
  let next = 0;
  const drain = () => {
    for (let tries = 0; waiting.length > 0 && tries < all.length; ) {
      const one = all[next++ % all.length];
      if (one.started.size >= limit) {
        tries += 1;
        continue;
      }
      tries = 0;
      one.send(waiting.shift());
    }
  };
  const tick = () => {
    const now = performance.now();
    for (; ; sent++) {
      const due = start + (sent * 1000) / rate;
      if (due > now || due >= end) break;
      waiting.push(due);
    }
    drain();
    if (now < end) setTimeout(tick, 1);
    else if (waiting.length === 0 && isIdle()) finish();
  };
  setOnFree(() => {
    drain();
    if (performance.now() >= end && waiting.length === 0 && isIdle()) finish();
  });
  tick();
}

for await (const line of createInterface({ input: process.stdin })) {
  const answer = await run(JSON.parse(line)).catch((error) => ({ error: error.message }));
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
