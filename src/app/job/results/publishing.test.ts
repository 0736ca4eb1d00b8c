/** A job publishes its exports to serving processes while it trains. */
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { type Serving, serve } from '../../serving/index.js';
import * as tf from '../../tf/index.js';
import { defineJob, type ExportOptions } from '../definition/define-job.js';
import { runInProcess } from '../running/run-local.js';

let folder: string;
const servers: Serving[] = [];
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'shoal-job-publish-'));
});
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close({ graceSecs: 0 });
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const start = async (name: string, publishPort = 0): Promise<Serving> => {
  const server = await serve({
    models: { counting: join(folder, name) },
    grpcPort: false,
    restPort: 0,
    publishPort,
    log: () => {},
  });
  servers.push(server);
  return server;
};

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address() as { port: number };
  await new Promise((done) => server.close(done));
  return port;
}

/** The number of steps that the model of a server has seen; undefined if none serves. */
async function stepsOf({ restPort }: Serving): Promise<number | undefined> {
  const response = await fetch(`http://127.0.0.1:${restPort}/v1/models/counting:predict`, {
    method: 'POST',
    body: JSON.stringify({ instances: [0] }),
  });
  return ((await response.json()) as { predictions?: readonly number[] }).predictions?.[0];
}

/** Each step adds 1 to what the model returns. */
const counting = (
  exported: Omit<ExportOptions, 'signatures'>,
  lastStep: number,
  onStep: (step: number) => Promise<void>,
) =>
  defineJob({
    name: 'counting',
    input: () => ({ x: tf.zeros([5]) }),
    model({ input: { x } }) {
      const count = tf.variable('count', { shape: [], initializer: 0 });
      return { loss: tf.neg(count), optimizer: tf.train.sgd(1), outputs: { sum: x.add(count) } };
    },
    train: { lastStep },
    export: exported,
    callbacks: { onStep: ({ step }) => onStep(step) },
  });

test('periodic exports are published while training runs; a process that returns gets the newest', async () => {
  const up = await start('up');
  const port = await freePort();
  const to = [`127.0.0.1:${up.publishPort}`, `127.0.0.1:${port}`];
  const lines: string[] = [];
  const madeAt = new Map<number, number>();
  const delays: number[] = [];
  let returned: Serving | undefined;
  let isReturning = false;
  let isTraining = true;
  const watching = (async () => {
    for (let last = 0; isTraining; await new Promise((tick) => setTimeout(tick, 5))) {
      const steps = (await stepsOf(up)) ?? 0;
      if (steps > last) delays.push(performance.now() - (madeAt.get(steps) ?? 0));
      last = steps;
      if (steps > 0 && !isReturning) {
        isReturning = true;
        returned = await start('returned', port);
      }
    }
  })();
  const job = counting({ everySecs: 0.5, publish: to }, 250, async (step) => {
    madeAt.set(step, performance.now());
    await new Promise((tick) => setTimeout(tick, 10));
  });
  await runInProcess(job, { dir: join(folder, 'job'), log: (line) => lines.push(line) });
  isTraining = false;
  await watching;
  console.info(`from a step to its first answer: ${delays.map((ms) => Math.round(ms)).join(', ')} ms`);
  // Several versions served before the last one.
  expect(delays.length).toBeGreaterThan(1);
  expect(lines.join('\n')).toMatch(/no answer from 127\.0\.0\.1:\d+: the version follows/);
  expect(await stepsOf(up)).toBe(250);
  expect(await stepsOf(returned as Serving)).toBe(250);
});

test('a process that cannot be published to neither stops nor fails the training, and the log names it', async () => {
  const nobody = `127.0.0.1:${await freePort()}`;
  const lines: string[] = [];
  const job = counting({ publish: { to: [nobody], waitSecs: 0.5 } }, 3, async () => {});
  const { exported } = await runInProcess(job, {
    dir: join(folder, 'alone'),
    log: (line) => lines.push(line),
  });
  expect(exported).toBeDefined();
  expect(lines.join('\n')).toContain(`is not published to ${nobody}`);
});
