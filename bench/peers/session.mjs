// Answers {"id", "seconds"} lines with {"value": runs per second}.
import { createInterface } from 'node:readline';
import { Session, tf } from '../../dist/index.js';

const COUNT = 262_144;
const x = tf.placeholder({ shape: [COUNT] });
const big = x.add(1);
const small = tf.placeholder({ shape: [] });
const trivial = small.add(1);
const session = Session.open();
const value = new Float32Array(COUNT).fill(1);

const one = {
  trivial: () => session.run(trivial, { feeds: [[small, 1]] }),
  megabyte: async () => (await session.run(big, { feeds: [[x, value]] })).dispose(),
};

async function loop(run, until) {
  let runs = 0;
  while (performance.now() < until) {
    await run();
    runs += 1;
  }
  return runs;
}

async function measure(id, seconds) {
  const run = one[id.replace('-parallel', '')];
  const lanes = id.endsWith('-parallel') ? 4 : 1;
  const start = performance.now();
  const counts = await Promise.all(Array.from({ length: lanes }, () => loop(run, start + seconds * 1000)));
  return counts.reduce((a, b) => a + b) / ((performance.now() - start) / 1000);
}

for await (const line of createInterface({ input: process.stdin })) {
  const { id, seconds } = JSON.parse(line);
  console.log(JSON.stringify({ value: await measure(id, seconds) }));
}
