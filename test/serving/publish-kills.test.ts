/** Publishing to real processes that are killed: none keeps half a change, and one that returns gets the version. */
import { appendFile, cp, mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { writeHalfPlus } from '../../src/app/serving/testing/models.js';
import { type ShoalProcess, shoal, startShoal } from '../cli/shoal-process.js';

const TOKEN = 'a-token-of-publishers-0123456789';
const SECONDS = 60_000;

let root: string;
let made: string;
let bases = 0;
const processes: ShoalProcess[] = [];

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'shoal-publish-kills-'));
  made = join(root, 'made');
  for (const version of [1, 2]) await writeHalfPlus(made, version, version);
  // Large enough to be killed in the middle of.
  await appendFile(join(made, '2', 'padding'), Buffer.alloc(200 << 20));
});
afterEach(async () => {
  for (const { child } of processes) child.kill('SIGKILL');
  await Promise.all(processes.splice(0).map(({ ended }) => ended));
});
afterAll(() => rm(root, { recursive: true, force: true }));

interface Host {
  readonly base: string;
  readonly rest: number;
  readonly address: string;
  readonly process: ShoalProcess;
}

/** Starts `shoal serve` with version 1, or again with what its directory has. */
async function start(former?: Host, env: Readonly<Record<string, string>> = {}): Promise<Host> {
  const base = former?.base ?? join(root, `base-${bases++}`);
  if (!former) {
    await mkdir(base);
    await cp(join(made, '1'), join(base, '1'), { recursive: true });
  }
  const [rest, port] = former ? [former.rest, Number(former.address.split(':')[1])] : await freePorts();
  const args = [`--model_name=half`, `--model_base_path=${base}`, '--port=0', '--host=127.0.0.1'];
  const ports = [`--rest_api_port=${rest}`, `--publish_port=${port}`];
  const process = startShoal(['serve', ...args, ...ports], {
    cwd: root,
    env: { SHOAL_PUBLISH_TOKEN: TOKEN, ...env },
  });
  processes.push(process);
  const host = { base, rest, address: `127.0.0.1:${port}`, process };
  await expect.poll(() => answerOf(host).catch(() => undefined), { timeout: SECONDS }).toBeDefined();
  return host;
}

async function freePorts(): Promise<readonly [number, number]> {
  const servers = await Promise.all(
    [0, 0].map(async () => {
      const server = createServer();
      await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
      return server;
    }),
  );
  const ports = servers.map((server) => (server.address() as { port: number }).port);
  await Promise.all(servers.map((server) => new Promise((done) => server.close(done))));
  return ports as [number, number];
}

async function answerOf({ rest }: Host): Promise<number | undefined> {
  const response = await fetch(`http://127.0.0.1:${rest}/v1/models/half:predict`, {
    method: 'POST',
    body: JSON.stringify({ instances: [0] }),
  });
  return ((await response.json()) as { predictions: readonly number[] }).predictions?.[0];
}

const publishArgs = (hosts: readonly Host[], ...more: readonly string[]): readonly string[] => [
  'publish',
  made,
  `--to=${hosts.map(({ address }) => address).join()}`,
  ...more,
];
const asPublisher = () => ({ cwd: root, env: { SHOAL_PUBLISH_TOKEN: TOKEN } });
const stagedOf = async ({ base }: Host): Promise<readonly string[]> =>
  (await readdir(base)).filter((name) => name.includes('.tmp-'));

test('a process that dies between prepare and commit gets the version when it returns', async () => {
  const hosts = [
    await start(),
    await start(undefined, { SHOAL_FAULT: 'publish.commit.before=kill' }),
  ] as const;
  const [well, dying] = hosts;
  const publisher = shoal(publishArgs(hosts, '--json', '--deadline=120'), asPublisher());
  await dying.process.ended;
  await expect.poll(() => answerOf(well), { timeout: SECONDS }).toBe(2);
  const returned = await start(dying);
  const { code, stdout } = await publisher;
  expect({ code, ...JSON.parse(stdout) }).toMatchObject({
    code: 0,
    version: 2,
    targets: [{ outcome: 'done' }, { outcome: 'done' }],
  });
  expect(await answerOf(returned)).toBe(2);
  expect(await stagedOf(returned)).toEqual([]);
}, 180_000);

test('without its return the publisher says which process lacks the version', async () => {
  const hosts = [
    await start(),
    await start(undefined, { SHOAL_FAULT: 'publish.commit.before=kill' }),
  ] as const;
  const { code, stdout } = await shoal(publishArgs(hosts, '--deadline=25'), asPublisher());
  expect(code).toBe(1);
  expect(stdout).toContain(`${hosts[0].address}: version 2 serves\n`);
  expect(stdout).toMatch(
    new RegExp(`${hosts[1].address}: does not have version 2: .*(refuses connections|closed the connection)`),
  );
}, 180_000);

test('a process that dies while it prepares: the others keep their version', async () => {
  const hosts = [await start(), await start(undefined, { SHOAL_FAULT: 'publish.prepare=kill' })] as const;
  const { code, stderr } = await shoal(publishArgs(hosts, '--deadline=60'), asPublisher());
  expect({ code, stderr }).toMatchObject({ code: 1, stderr: expect.stringContaining(hosts[1].address) });
  expect(await answerOf(hosts[0])).toBe(1);
  await expect.poll(() => stagedOf(hosts[0]), { timeout: SECONDS }).toEqual([]);
}, 180_000);

test('of a publisher that is killed in the middle nothing remains', async () => {
  const one = await start();
  const publisher = startShoal(publishArgs([one]), asPublisher());
  processes.push(publisher);
  await expect.poll(() => stagedOf(one), { timeout: SECONDS, interval: 5 }).toHaveLength(1);
  publisher.child.kill('SIGKILL');
  await expect.poll(() => stagedOf(one), { timeout: SECONDS }).toEqual([]);
  expect(await answerOf(one)).toBe(1);
}, 180_000);
