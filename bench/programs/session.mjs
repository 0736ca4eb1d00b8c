// Responds to {"id", "seconds"} lines with {"value": runs per second}.
import { createInterface } from 'node:readline';
import { Session, tf } from '../../dist/index.js';

const COUNT = 262_144;
const x = tf.placeholder({ shape: [COUNT] });
const big = x.add(1);
const small = tf.placeholder({ shape: [] });
const trivial = small.add(1);
const session = Session.open();
const value = new Float32Array(COUNT).fill(1);

const awaited = {
  trivial: () => session.run(trivial, { feeds: [[small, 1]] }),
  megabyte: async () => (await session.run(big, { feeds: [[x, value]] })).dispose(),
};
const blocking = {
  trivial: () => session.runSync(trivial, { feeds: [[small, 1]] }),
  megabyte: () => session.runSync(big, { feeds: [[x, value]] }).dispose(),
};

async function loop(run, until) {
  let runs = 0;
  for (; performance.now() < until; runs++) await run();
  return runs;
}

function loopBlocking(run, until) {
  let runs = 0;
  for (; performance.now() < until; runs++) run();
  return runs;
}

async function measure(id, seconds) {
  const [name, mode] = id.split('-');
  const start = performance.now();
  const until = start + seconds * 1000;
  const inFlight = mode === 'parallel' ? 4 : 1;
  const counts =
    mode === undefined
      ? [loopBlocking(blocking[name], until)]
      : await Promise.all(Array.from({ length: inFlight }, () => loop(awaited[name], until)));
  return counts.reduce((a, b) => a + b) / ((performance.now() - start) / 1000);
}

for await (const line of createInterface({ input: process.stdin })) {
  const { id, seconds } = JSON.parse(line);
  console.log(JSON.stringify({ value: await measure(id, seconds) }));
}
