/** The lab itself: the isolation of hosts, and its faults. */
import { fileURLToPath } from 'node:url';
import { sleep } from '../../src/base/async/deadline.js';
import { isShoalError, ShoalError } from '../../src/base/errors/errors.js';
import type { Context, Experiment } from '../experiment.js';
import { type Connection, connectionsTo, cutConnection } from '../hosts/connections.js';
import type { Lab, LabHost, LabProcess } from '../hosts/hosts.js';
import { processStat, until } from '../hosts/proc.js';

const ECHO = fileURLToPath(new URL('../hosts/echo.mjs', import.meta.url));
const SILENCE_MS = 600;
/** What was under way is heard before the silence begins. */
const SETTLE_MS = 200;
const ANSWER_MS = 20_000;
const DISK_BYTES = 16 << 20;

export const experiment: Experiment = {
  name: 'hosts',
  description:
    'hosts have separate networks and disks, and can be frozen, disconnected, cut, slowed, filled, wiped',
  flags: {
    hosts: { type: 'string', default: '3', description: 'how many hosts' },
    deep: {
      type: 'boolean',
      default: false,
      description: "search a host's complete file tree for another's file",
    },
  },
  async run(ctx) {
    const lab = await ctx.lab({ hosts: Number(ctx.flags.hosts), diskBytes: DISK_BYTES });
    ctx.log(`${lab.hosts.length} hosts, ${lab.isolated ? 'in namespaces' : 'in directories'}: ${lab.name}`);
    await files(ctx, lab);
    await network(ctx, lab);
    await freezing(ctx, lab);
    await disks(ctx, lab);
  },
};

async function files(ctx: Context, lab: Lab): Promise<void> {
  const [a, b] = [lab.host(0), lab.host(1)];
  await a.writeFile('secret/of-a', 'a');
  await a.exec('sh', ['-c', 'echo a >"$TMPDIR/of-a"']);
  ctx.equal('a host reads its own file', (await a.readFile('secret/of-a')).toString(), 'a');
  ctx.equal("the other host's disk is empty", await b.listFiles(), []);
  const tmp = await b.exec('sh', ['-c', 'ls "$TMPDIR"/of-a']);
  ctx.check("the other host's temp directory does not show it", tmp.code !== 0);
  if (!lab.isolated) return;
  ctx.equal('the disk has one path on every host', new Set(lab.hosts.map(({ disk }) => disk)).size, 1);
  // The lab's own directory holds the disks of all; a host sees of it just the way to its own.
  ctx.equal('the place of the disks shows nothing else', await b.listFiles(`${b.disk}/..`), ['disk']);
  if (ctx.flags.deep !== true) return;
  const search = 'find / -path /proc -prune -o -path /sys -prune -o -name of-a -print 2>/dev/null';
  const { stdout } = await b.exec('sh', ['-c', search], { timeoutMs: 300_000 });
  ctx.equal('no path on the other host leads to it', stdout.trim(), '');
}

async function serve(host: LabHost): Promise<{ server: LabProcess; port: string }> {
  const server = host.start(process.execPath, [ECHO, 'serve', host.address]);
  const port = (await server.waitFor(/port (\d+)/))[1] ?? '';
  return { server, port };
}

const replies = (talk: LabProcess) => talk.output.match(/^reply /gm)?.length ?? 0;
const complaints = (talk: LabProcess) => talk.output.match(/^(error .*|end)$/gm) ?? [];

/** How many answers break the silence. */
async function heardInSilence(talk: LabProcess): Promise<number> {
  await sleep(SETTLE_MS);
  const before = replies(talk);
  await sleep(SILENCE_MS);
  return replies(talk) - before;
}

/** The time until the next answer; undefined when none comes. */
async function nextAnswer(talk: LabProcess): Promise<number | undefined> {
  const before = replies(talk);
  const start = performance.now();
  while (replies(talk) === before) {
    if (performance.now() - start > ANSWER_MS) return undefined;
    await sleep(5);
  }
  return performance.now() - start;
}

async function network(ctx: Context, lab: Lab): Promise<void> {
  const [a, b] = [lab.host(0), lab.host(1)];
  const { server, port } = await serve(b);
  await using _server = server;
  await using talk = a.start(process.execPath, [ECHO, 'talk', b.address, port]);
  await talk.waitFor(/reply 3/);
  ctx.check('addresses reach each other', replies(talk) > 0, `${a.address} to ${b.address}`);

  if (!lab.isolated) {
    for (const [what, act] of [
      ['disconnect', () => b.disconnect()],
      ['block', () => b.block(a)],
      ['slow', () => b.slow({ delayMs: 10 })],
      ['split', () => lab.split([a], [b])],
    ] as const) {
      const error: unknown = await act().catch((reason: unknown) => reason);
      ctx.check(`${what} fails with SHOAL_UNSUPPORTED`, isShoalError(error, 'SHOAL_UNSUPPORTED'));
    }
    return;
  }

  const outside = await a.exec('ip', ['route', 'get', '192.0.2.1']);
  ctx.check('there is no route out', outside.code !== 0, outside.stderr.trim());

  const named = a.start(process.execPath, [ECHO, 'talk', b.name, port]);
  await named.waitFor(/reply 1/);
  ctx.check('names reach each other', replies(named) > 0, `${a.name} to ${b.name}`);
  named.kill();

  await b.disconnect();
  ctx.equal('a disconnected host is silent', await heardInSilence(talk), 0);
  ctx.equal('silent, not reset', complaints(talk), []);
  await using late = a.start(process.execPath, [ECHO, 'talk', b.address, port]);
  await sleep(SILENCE_MS);
  ctx.equal('a connection to a disconnected host receives nothing', late.output, '');
  await b.reconnect();
  const healed = await nextAnswer(talk);
  ctx.check('a reconnected host answers on the same connection', healed !== undefined);
  ctx.measure('from reconnect to the first answer', healed ?? Number.POSITIVE_INFINITY, 'ms');

  await lab.split([a], [b]);
  ctx.equal('hosts of two groups do not reach each other', await heardInSilence(talk), 0);
  await lab.join();
  ctx.check('joined again, they do', (await nextAnswer(talk)) !== undefined);
  await oneWay(ctx, a, b, talk);
  talk.kill();
  await cuts(ctx, a, b);

  await slowness(ctx, a, b, port);
}

/** One of two connections is cut at the end that opened it, then the other one at the other end. */
async function cuts(ctx: Context, a: LabHost, b: LabHost): Promise<void> {
  const { server, port } = await serve(b);
  await using _server = server;
  const talks: LabProcess[] = [];
  for (let i = 0; i < 2; i++) {
    const talk = a.start(process.execPath, [ECHO, 'talk', b.address, port]);
    await talk.waitFor(/reply 1/);
    talks.push(talk);
  }
  const isOurs = ({ remote }: Connection) => remote === `${b.address}:${port}`;
  const [first] = (await connectionsTo(a, b)).filter(isOurs);
  ctx.check('the host that opened a connection is known', first?.isOutgoing === true, JSON.stringify(first));
  try {
    await cutConnection(a, first as Connection);
  } catch (error) {
    if (!isShoalError(error, 'SHOAL_UNSUPPORTED')) throw error;
    ctx.log(error.message);
    return;
  }
  const isBroken = (talk: LabProcess) => complaints(talk).length > 0;
  await until('the connection to break', () => talks.some(isBroken), ANSWER_MS);
  const [broken] = talks.filter(isBroken);
  const [whole] = talks.filter((talk) => talk !== broken);
  ctx.equal('the end where a connection is cut gets an error', complaints(broken as LabProcess), [
    'error ECONNABORTED',
  ]);
  ctx.check('the other connection lasts', (await nextAnswer(whole as LabProcess)) !== undefined);
  const [second] = (await connectionsTo(b, a)).filter(({ local }) => local === `${b.address}:${port}`);
  ctx.check('the host that accepted it is known', second?.isOutgoing === false, JSON.stringify(second));
  ctx.equal('it is cut at the other end', await cutConnection(b, second as Connection), true);
  await until('the other connection to break', () => isBroken(whole as LabProcess), ANSWER_MS);
  ctx.equal('the peer gets an error', complaints(whole as LabProcess), ['error ECONNRESET']);
  ctx.equal('a connection that has ended is not cut', await cutConnection(b, second as Connection), false);
  for (const talk of talks) talk.kill();
}

/** Packets from b to a are dropped, then those from a to b. */
async function oneWay(ctx: Context, a: LabHost, b: LabHost, talk: LabProcess): Promise<void> {
  await b.block(a);
  const reached = await packetsReceived(b);
  ctx.equal('a host whose packets to another are blocked does not answer it', await heardInSilence(talk), 0);
  ctx.check('it still receives', (await packetsReceived(b)) > reached);
  await b.unblock(a);
  ctx.check('unblocked, it answers', (await nextAnswer(talk)) !== undefined);
  await a.block(b);
  await sleep(SETTLE_MS);
  const before = await packetsReceived(b);
  await sleep(SILENCE_MS);
  ctx.equal('blocked in the other direction it receives nothing', await packetsReceived(b), before);
  await a.unblock(b);
  ctx.check('unblocked, it receives and answers', (await nextAnswer(talk)) !== undefined);
  ctx.equal('no connection was reset', complaints(talk), []);
}

/** The number of IP packets that a host has received. */
async function packetsReceived(host: LabHost): Promise<number> {
  const { stdout } = await host.exec('cat', ['/proc/net/snmp']);
  const [names = '', values = ''] = stdout.split('\n').filter((line) => line.startsWith('Ip:'));
  return Number(values.split(' ')[names.split(' ').indexOf('InReceives')]);
}

async function roundTrip(
  from: LabHost,
  to: LabHost,
  port: string,
  bytes: number,
  timeoutMs = 20_000,
): Promise<number> {
  const args = [ECHO, 'rate', to.address, port, String(bytes)];
  const { stdout, stderr } = await from.exec(process.execPath, args, { timeoutMs });
  const took = /took ([\d.]+)/.exec(stdout)?.[1];
  if (took === undefined) {
    throw new ShoalError('SHOAL_UNREACHABLE', `no answer from ${to.name}: ${stdout}${stderr}`);
  }
  return Number(took);
}

async function slowness(ctx: Context, a: LabHost, b: LabHost, port: string): Promise<void> {
  const plain = await roundTrip(a, b, port, 1);
  try {
    await b.slow({ delayMs: 50 });
  } catch (error) {
    if (!isShoalError(error, 'SHOAL_UNSUPPORTED')) throw error;
    ctx.log(error.message);
    return;
  }
  const delayed = await roundTrip(a, b, port, 1);
  ctx.measure('connect and one byte, there and back', plain, 'ms');
  ctx.measure('the same with 50 ms each way', delayed, 'ms');
  // A connection is one round trip, the byte another: four times the delay, less what timers round off.
  ctx.check('a delay is felt on every way', delayed > 190, 'no less than 4 × 50 ms');

  await b.slow({ rateMbit: 8 });
  const bytes = 500_000;
  const throttled = await roundTrip(a, b, port, bytes);
  ctx.measure('500 kB there and back at 8 Mbit/s', throttled, 'ms');
  ctx.check('a rate is kept', throttled > 400, 'one way alone takes 500 ms');

  await b.slow({ lossPct: 100 });
  const lost: unknown = await roundTrip(a, b, port, 1, 1500).catch((reason: unknown) => reason);
  ctx.check('with every packet lost nothing comes through', isShoalError(lost, 'SHOAL_TIMEOUT'));

  await b.unslow();
  const tries = [0, 0, 0];
  for (const i of tries.keys()) tries[i] = await roundTrip(a, b, port, 1);
  const again = Math.min(...tries);
  ctx.check('at full speed again the delay is gone', again < delayed, `${again.toFixed(1)} ms`);
}

async function freezing(ctx: Context, lab: Lab): Promise<void> {
  const [a, b] = [lab.host(0), lab.host(1)];
  const { server, port } = await serve(b);
  await using frozen = server;
  await using talk = a.start(process.execPath, [ECHO, 'talk', b.address, port]);
  await talk.waitFor(/reply 1/);
  await b.freeze(frozen);
  ctx.equal('a frozen process stands still', (await processStat(frozen.pid))?.state, 'T');
  ctx.equal('and is silent', await heardInSilence(talk), 0);
  ctx.equal('its connections stay', complaints(talk), []);
  await b.thaw(frozen);
  ctx.check('thawed, it answers', (await nextAnswer(talk)) !== undefined);
  frozen.kill('SIGKILL');
  const { signal } = await frozen.ended();
  ctx.equal('a killed process is gone by that signal', signal, 'SIGKILL');
  const deadline = performance.now() + 10_000;
  while (complaints(talk).length === 0 && performance.now() < deadline) await sleep(10);
  ctx.check('and its connections end', complaints(talk).length > 0, complaints(talk).join(', '));
}

async function disks(ctx: Context, lab: Lab): Promise<void> {
  const [a, b] = [lab.host(0), lab.host(1)];
  await b.writeFile('of-b', 'b');
  const write = () => a.exec('dd', ['if=/dev/zero', 'of=more', 'bs=64k', 'count=1']);
  if (lab.isolated) {
    await a.fillDisk();
    const full = await write();
    ctx.check(
      'a write to a full disk fails with ENOSPC',
      /No space left on device/.test(full.stderr),
      full.stderr.trim().split('\n')[0],
    );
    ctx.equal('what it held is still there', (await a.readFile('secret/of-a')).toString(), 'a');
    const other = await b.exec('dd', ['if=/dev/zero', 'of=more', 'bs=64k', 'count=1']);
    ctx.equal("the other host's disk is not full", other.code, 0);
    await a.freeDisk();
    ctx.equal('a freed disk takes files', (await write()).code, 0);
  } else {
    const error: unknown = await a.fillDisk().catch((reason: unknown) => reason);
    ctx.check('fillDisk fails with SHOAL_UNSUPPORTED', isShoalError(error, 'SHOAL_UNSUPPORTED'));
  }
  await a.wipeDisk();
  ctx.equal('a wiped disk is empty', await a.listFiles(), []);
  const tmp = await a.exec('sh', ['-c', 'cat "$TMPDIR/of-a"']);
  ctx.check('and so is the temp directory', tmp.code !== 0);
  ctx.equal("the other host's disk is not", (await b.readFile('of-b')).toString(), 'b');
}
