/** A job publishes its exports to serving processes while it trains. */
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { cp, readFile, stat, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { publish, rollBack, type Serving, serve } from '../../serving/index.js';
import { writeHalfPlus } from '../../serving/testing/models.js';
import * as tf from '../../tf/index.js';
import { defineJob, type ExportOptions } from '../definition/define-job.js';
import { runInProcess } from '../running/run-local.js';
import { JobPublishing } from './publishing.js';

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

/** A directory with versions 1 and 2, the second with a large file. */
async function madeVersions(): Promise<string> {
  const made = join(folder, 'made');
  if (existsSync(made)) return made;
  for (const version of [1, 2]) await writeHalfPlus(made, version, version);
  await writeFile(join(made, '2', 'padding'), Buffer.alloc(32 << 20));
  return made;
}

async function startWithFirst(name: string): Promise<{ readonly address: string }> {
  const made = await madeVersions();
  await cp(join(made, '1'), join(folder, name, '1'), { recursive: true });
  return { address: `127.0.0.1:${(await start(name)).publishPort}` };
}

test('an export that a process has rolled back is not reported as published there', async () => {
  const [{ address: back }, { address: well }] = [await startWithFirst('back'), await startWithFirst('well')];
  const path = join(await madeVersions(), '2');
  await publish({ directory: path, to: [back] });
  await rollBack({ to: [back] });
  const lines: string[] = [];
  await using publishing = new JobPublishing(
    { to: [back, well] },
    { env: {}, log: (line) => lines.push(line) },
  );
  publishing.offer(path, 10);
  await publishing.finish();
  expect(lines).toEqual([
    `${back} does not take step 10: it was rolled back there`,
    expect.stringMatching(/^published step 10 to 1 serving process in /),
  ]);
});

test('an export is read once, however often it is tried to publish it', async () => {
  const nobody = `127.0.0.1:${await freePort()}`;
  const lines: string[] = [];
  await using publishing = new JobPublishing({ to: [nobody] }, { env: {}, log: (line) => lines.push(line) });
  const path = join(await madeVersions(), '2');
  const { size } = await stat(join(path, 'padding'));
  publishing.offer(path, 10);
  await expect.poll(() => lines.length, { timeout: 20_000 }).toBe(1);
  const before = await bytesRead();
  await new Promise((tick) => setTimeout(tick, 5000));
  expect((await bytesRead()) - before).toBeLessThan(size / 2);
});

test('an export that is offered at the moment when the one before it ends is published', async () => {
  const { address } = await startWithFirst('moment');
  const made = await madeVersions();
  await publish({ directory: join(made, '2'), to: [address] });
  for (let turns = 0; turns < 8; turns++) {
    const lines: string[] = [];
    let isOffered = false;
    const publishing: JobPublishing = new JobPublishing(
      { to: [address] },
      {
        env: {},
        log: (line) => {
          lines.push(line);
          if (!isOffered) void after(turns, () => publishing.offer(join(made, '1'), 2));
          isOffered = true;
        },
      },
    );
    publishing.offer(join(made, '2'), 1);
    await expect.poll(() => [turns, lines.length], { timeout: 5000 }).toEqual([turns, 2]);
    await publishing[Symbol.asyncDispose]();
  }
});

/** What this process has read so far, by its own account. */
const bytesRead = async (): Promise<number> =>
  Number(/^rchar: (\d+)$/m.exec(await readFile('/proc/self/io', 'utf8'))?.[1]);

async function after(turns: number, work: () => void): Promise<void> {
  for (let turn = 0; turn < turns; turn++) await Promise.resolve();
  work();
}
