/**
 * Versions are swapped under load: open-loop clients on three hosts send requests at 30 % of what the hosts can answer, while
 * versions are published to them from a fourth, one of them damaged. One host's process is killed and returns.
 *
 *   npm run lab -- serving                                        the full form
 *   npm run lab -- serving --seconds 10 --versions 4 --mb 1 --p99-ratio 0    a short one
 */
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { publishAddress, restAddress, startServing } from '../cluster/serving.js';
import type { Context, Experiment } from '../experiment.js';
import type { LabHost, LabProcess } from '../hosts/hosts.js';
import { memoryOf } from '../hosts/memory.js';
import { ROOT } from '../hosts/root.js';

const MODEL = 'table';
const LOADER = join(ROOT, 'node_modules/tsx/dist/loader.mjs');
const SATURATION_SECS = 4;
const PART = 0.3;
/** How much the memory may grow after the third swap: allocators keep some. */
const GROWTH = 1.15;
const LONG_MS = 15 * 60_000;

interface Event {
  readonly at: number;
  readonly event: 'begin' | 'end' | 'rested' | 'complete';
  readonly version?: number;
  readonly isDamaged?: boolean;
  readonly isPublished?: boolean;
  readonly lacking?: number;
  readonly why?: string;
}

interface Seconds {
  readonly answered: readonly (readonly [due: number, ms: number])[];
  readonly failures: readonly string[];
}

export const experiment: Experiment = {
  name: 'serving',
  description:
    'versions are published to three serving hosts under load; one is damaged, one host dies and returns',
  flags: {
    seconds: { type: 'string', default: '60', description: 'how long versions are published' },
    versions: { type: 'string', default: '20', description: 'how many versions' },
    mb: { type: 'string', default: '720', description: 'the size of the model' },
    'p99-ratio': {
      type: 'string',
      default: '1.2',
      description: 'p99 during swaps, against at rest, is at most this; 0: only measured',
    },
  },
  needs: { isolation: 'waivable', diskBytes: 8e9 },
  async run(ctx) {
    const lab = await ctx.lab({ hosts: 4 });
    const hosts = lab.hosts.slice(0, 3);
    const publisher = lab.host(3);
    const token = randomBytes(16).toString('hex');
    const { versions, seconds, mb } = ctx.flags as Record<string, string>;

    ctx.log(`a model of ${mb} MB is made, and published to three hosts`);
    const made = program(publisher, 'serving-model.ts', [publisher.path('made'), mb as string]);
    ctx.equal('the model is made', (await made.ended({ timeoutMs: LONG_MS })).code, 0);
    const serving = await Promise.all(hosts.map((host) => startServing(host, MODEL, token)));
    const to = hosts.map(publishAddress).join();
    const env = { SHOAL_PUBLISH_TOKEN: token };
    const first = program(publisher, 'serving-publisher.ts', [publisher.path('made'), to, '0', '0'], { env });
    ctx.equal('the first version is published', (await first.ended({ timeoutMs: LONG_MS })).code, 0);

    const rate = PART * (await saturation(ctx, hosts));
    const load = hosts.map((host, i) => startClient(host, [...hosts.slice(i), ...hosts.slice(0, i)], rate));
    await Promise.all(load.map(({ process }) => process.waitFor(/sending/, { timeoutMs: LONG_MS })));

    const events: Event[] = [];
    const memory: number[][] = [];
    const kill = { version: 2 + Math.floor(Number(versions) / 3), returned: Promise.resolve() };
    const run = program(
      publisher,
      'serving-publisher.ts',
      [publisher.path('made'), to, versions!, seconds!],
      {
        env,
        onLine: (line) => {
          if (!line.startsWith('{')) return;
          const event = JSON.parse(line) as Event;
          events.push(event);
          if (event.event === 'rested') void sampleMemory(serving, memory);
          if (event.event !== 'begin' || event.version !== kill.version) return;
          ctx.log(`version ${kill.version} is being published: ${hosts[2]?.name} is killed, and returns`);
          serving[2]?.kill('SIGKILL');
          kill.returned = startServing(hosts[2] as LabHost, MODEL, token).then((process) => {
            serving[2] = process;
          });
          kill.returned.catch((error: unknown) => ctx.check('the killed host returns', false, String(error)));
        },
      },
    );
    const { code } = await run.ended({ timeoutMs: LONG_MS });
    await kill.returned;
    ctx.equal('the publisher ends', code, 0);
    for (const { process } of load) process.kill('SIGTERM');
    await Promise.all(load.map(({ process }) => process.ended({ timeoutMs: 60_000 })));

    published(ctx, events);
    answered(
      ctx,
      load.flatMap(({ reports }) => reports),
      events,
    );
    flat(ctx, memory);
    for (const process of serving) process.kill('SIGTERM');
    const codes = await Promise.all(serving.map(async (process) => (await process.ended()).code));
    ctx.equal('all processes end with exit code 0', codes, [0, 0, 0]);
    await lab.dispose();
  },
};

function program(
  host: LabHost,
  name: string,
  args: readonly string[],
  options: { readonly env?: Readonly<Record<string, string>>; readonly onLine?: (line: string) => void } = {},
): LabProcess {
  const path = join(ROOT, 'lab/programs', name);
  return host.start(process.execPath, ['--import', LOADER, path, ...args], { cwd: host.disk, ...options });
}

/** The requests per second that each host answers while all are busy. */
async function saturation(ctx: Context, hosts: readonly LabHost[]): Promise<number> {
  const rates = await Promise.all(
    hosts.map(async (host) => {
      const client = program(host, 'serving-client.ts', [restAddress(host), '0', String(SATURATION_SECS)]);
      const [text] = await client.waitFor(/^\{.*\}$/m, { timeoutMs: LONG_MS });
      return (JSON.parse(text) as { rate: number }).rate;
    }),
  );
  const rate = Math.min(...rates);
  ctx.measure('requests per second and host at saturation', Math.round(rate), '/s');
  return rate;
}

function startClient(host: LabHost, hosts: readonly LabHost[], rate: number) {
  const reports: Seconds[] = [];
  const process = program(host, 'serving-client.ts', [hosts.map(restAddress).join(), rate.toFixed(2), '0'], {
    onLine: (line) => {
      if (line.startsWith('{')) reports.push(JSON.parse(line) as Seconds);
    },
  });
  return { process, reports };
}

async function sampleMemory(serving: readonly LabProcess[], memory: number[][]): Promise<void> {
  // That of the host that is not killed, and of another.
  const samples = serving.slice(0, 2).map(async ({ pid }) => (await memoryOf(pid)).ownMb);
  memory.push(await Promise.all(samples));
}

function published(ctx: Context, events: readonly Event[]): void {
  const isDamaged = new Set(events.filter((one) => one.isDamaged).map(({ version }) => version));
  const ends = events.filter(({ event }) => event === 'end');
  const wrong = ends.filter(({ version, isPublished }) => isPublished === isDamaged.has(version));
  ctx.check(
    `${ends.length} publications: the damaged one changes nothing, the others serve`,
    ends.length > 0 && wrong.length === 0,
    wrong.map(({ version, why }) => `${version}: ${why ?? 'published'}`).join('; '),
  );
  ctx.equal('in the end no host lacks the newest version', events.at(-1)?.lacking, 0);
}

function answered(ctx: Context, reports: readonly Seconds[], events: readonly Event[]): void {
  const answers = reports.flatMap(({ answered: ones }) => ones);
  const failures = reports.flatMap(({ failures: ones }) => ones);
  ctx.check(
    `none of ${answers.length} requests failed, and those with a bad input were refused with 400`,
    failures.length === 0,
    failures.slice(0, 3).join('; '),
  );
  const swaps = spans(events, 'begin', 'end');
  const rests = spans(events, 'end', 'rested');
  const [during, atRest] = [swaps, rests].map((windows) => p99(answers, windows)) as [number, number];
  ctx.measure('p99 during swaps', during, 'ms');
  ctx.measure('p99 at rest', atRest, 'ms');
  ctx.measure('their ratio', during / atRest, '');
  ctx.measure('median time of a publication', median(swaps.map(([from, to]) => (to - from) / 1000)), 's');
  const limit = Number(ctx.flags['p99-ratio']);
  if (limit > 0)
    ctx.check(`p99 during swaps is at most ${limit} times that at rest`, during <= limit * atRest);
}

type Span = readonly [from: number, to: number];

/** The times between two events of the same version. */
const spans = (events: readonly Event[], first: Event['event'], last: Event['event']): readonly Span[] =>
  events
    .filter(({ event }) => event === first)
    .flatMap(({ at, version }) => {
      const end = events.find((other) => other.event === last && other.version === version);
      return end ? [[at, end.at] as const] : [];
    });

function p99(answers: Seconds['answered'], windows: readonly Span[]): number {
  const times = answers
    .filter(([due]) => windows.some(([from, to]) => due >= from && due < to))
    .map(([, ms]) => ms)
    .sort((a, b) => a - b);
  return times[Math.floor(0.99 * times.length)] ?? Number.NaN;
}

const median = (values: readonly number[]): number =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;

function flat(ctx: Context, memory: readonly (readonly number[])[]): void {
  const [third, last] = [memory[2], memory.at(-1)];
  if (!third || !last) return;
  const ratio = Math.max(...last.map((mb, i) => mb / (third[i] as number)));
  ctx.measure('private memory after the third swap', Math.max(...third), 'MB');
  ctx.measure('private memory after the last', Math.max(...last), 'MB');
  ctx.check('the memory is flat after the third swap', ratio <= GROWTH, `${ratio.toFixed(2)} times`);
}
