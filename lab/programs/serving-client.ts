/**
 * Sends requests to serving processes. Without a rate: as many as they answer, from several connections, and prints the
 * rate. With one: at that rate, whatever the servers do; latency counts from when a request was due. A request whose
 * server is gone goes to the next one. Some requests have a bad input, and are to be refused with 400. Prints `[due, ms]` of
 * the answers and the failures of each second, until SIGTERM.
 *
 *   serving-client.ts HOST:PORT,… RATE SECONDS
 */
import { Agent, request } from 'node:http';

const [to = '', rate = '0', seconds = '0'] = process.argv.slice(2);
const addresses = to.split(',');
const CONNECTIONS = 4;
const agent = new Agent({ keepAlive: true, maxSockets: 256 });
const BAD_EVERY = 20;
const bodyOf = (columns: number): string =>
  JSON.stringify({
    instances: Array.from({ length: 4 }, () => Array.from({ length: columns }, (_, i) => i)),
  });
const GOOD = { body: bodyOf(16), status: 200 };
const BAD = { body: bodyOf(15), status: 400 };

function once(address: string, { body, status }: typeof GOOD): Promise<void> {
  return new Promise((resolve, reject) => {
    const [host, port] = address.split(':');
    const headers = { 'content-length': Buffer.byteLength(body) };
    const path = '/v1/models/table:predict';
    const sent = request({ host, port, path, method: 'POST', headers, agent, timeout: 10_000 }, (answer) => {
      let text = '';
      answer.setEncoding('utf8').on('data', (part: string) => {
        text += part;
      });
      answer.on('error', reject);
      answer.on('end', () =>
        answer.statusCode === status ? resolve() : reject(new Failed(answer.statusCode, text)),
      );
    });
    sent.on('timeout', () => sent.destroy(new Error('no answer within 10 s')));
    sent.on('error', reject);
    sent.end(body);
  });
}

/** The server has answered, but not as it should: no other is asked. */
class Failed extends Error {
  constructor(status: number | undefined, text: string) {
    super(`${status}: ${text}`);
  }
}

async function anywhere(what: typeof GOOD): Promise<void> {
  let last: unknown;
  for (const address of addresses) {
    try {
      await once(address, what);
      return;
    } catch (error) {
      if (error instanceof Failed) throw error;
      last = error;
    }
  }
  throw last;
}

const answered: [due: number, ms: number][] = [];
const failures: string[] = [];
let isOver = false;

async function measured(due: number, what = GOOD): Promise<void> {
  try {
    await anywhere(what);
    answered.push([due, Math.round(100 * (performance.timeOrigin + performance.now() - due)) / 100]);
  } catch (error) {
    failures.push(String(error));
  }
}

if (Number(rate) === 0) {
  const end = Date.now() + 1000 * Number(seconds);
  const loop = async () => {
    while (Date.now() < end) await measured(Date.now());
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, loop));
  console.log(JSON.stringify({ rate: answered.length / Number(seconds), failures }));
} else {
  process.once('SIGTERM', () => {
    isOver = true;
  });
  console.log('sending');
  const report = () =>
    console.log(JSON.stringify({ answered: answered.splice(0), failures: failures.splice(0) }));
  const reporting = setInterval(report, 1000);
  const pending = new Set<Promise<void>>();
  const started = performance.timeOrigin + performance.now();
  for (let i = 0; !isOver; i++) {
    const due = started + (1000 * i) / Number(rate);
    const wait = due - (performance.timeOrigin + performance.now());
    if (wait > 0) await new Promise((tick) => setTimeout(tick, wait));
    const one = measured(due, i % BAD_EVERY === BAD_EVERY - 1 ? BAD : GOOD).finally(() =>
      pending.delete(one),
    );
    pending.add(one);
  }
  await Promise.all(pending);
  clearInterval(reporting);
  report();
}
agent.destroy();
