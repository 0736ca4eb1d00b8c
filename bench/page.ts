/**
 * What the page costs: the steps of a cluster with three pages open, against the same cluster without; how soon a killed
 * task is seen in a browser; and how long a browser takes to draw 1,000 simulated tasks with a day of data, and how much it
 * loads for that. The last three are compared with the limits that they have to keep.
 *
 * The pages that cost steps are connections that read the updates: a browser on the machine of the cluster would cost more
 * than what it looks at. `--rounds=10`, and `--seconds=5` for each measurement of steps. Needs Debian's chromium, or that of
 * SHOAL_CHROMIUM.
 */
import { existsSync } from 'node:fs';
import { type Browser, chromium } from 'playwright-core';
import { type Benchmark, compare } from './harness.js';
import { SimulatedCluster } from './page/simulated-cluster.js';
import { WatchedJob } from './page/watched-job.js';

const BENCH = 'page';
const ROUNDS = 10;
const SECONDS = 5;
const PAGES = 3;
const TASKS = 1000;
const LIMITS = { shownMs: 1000, drawnMs: 1000, bytes: 200_000 } as const;
const WAIT_MS = 120_000;

const PLACES = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];

export const benchmark: Benchmark = {
  name: BENCH,
  about: 'steps with three pages open, and how soon a page shows a kill and 1,000 tasks',
  async run(report, log, flags) {
    const rounds = Number(flags.get('rounds') ?? ROUNDS);
    const seconds = Number(flags.get('seconds') ?? SECONDS);
    const limited = (row: string, unit: string, measured: readonly number[], limit: number) =>
      report({
        ...compare(
          BENCH,
          row,
          unit,
          'lower',
          measured,
          measured.map(() => limit),
          1,
        ),
        baselineName: 'limit',
      });
    const browser = await openBrowser();
    try {
      const job = await WatchedJob.start();
      try {
        const steps = { open: [] as number[], closed: [] as number[] };
        for (let round = 0; round < rounds; round++) {
          // The order alternates, so that a drift of the machine affects both.
          const order = round % 2 === 0 ? (['closed', 'open'] as const) : (['open', 'closed'] as const);
          for (const state of order)
            steps[state].push(await job.stepsPerSecond(seconds, state === 'open' ? PAGES : 0));
          log(`${steps.closed.at(-1)?.toFixed(0)} steps/s, with pages ${steps.open.at(-1)?.toFixed(0)}`);
        }
        report({
          ...compare(
            BENCH,
            `steps with ${PAGES} pages open`,
            'steps/s',
            'higher',
            steps.open,
            steps.closed,
            0.99,
          ),
          baselineName: 'no page',
        });
        const shown: number[] = [];
        for (let kill = 0; kill < Math.min(rounds, MOST_KILLS); kill++)
          shown.push(await killedAndShown(browser, job));
        limited('SIGKILL of a ps until it is shown', 'ms', shown, LIMITS.shownMs);
      } finally {
        await job.close();
      }
      const first: Drawn[] = [];
      for (let round = 0; round < rounds; round++) first.push(await drawn(browser));
      limited(
        `${TASKS} tasks with a day of data, drawn`,
        'ms',
        first.map(({ ms }) => ms),
        LIMITS.drawnMs,
      );
      limited(
        `${TASKS} tasks with a day of data, loaded`,
        'bytes',
        first.map(({ bytes }) => bytes),
        LIMITS.bytes,
      );
    } finally {
      await browser.close();
    }
  },
};

async function openBrowser(): Promise<Browser> {
  const executablePath = process.env.SHOAL_CHROMIUM ?? PLACES.find((path) => existsSync(path));
  if (executablePath === undefined)
    throw new Error(`there is no browser at ${PLACES.join(', ')}: install Debian's package chromium`);
  return await chromium.launch({ executablePath, args: ['--no-sandbox'] });
}

const VICTIM = 'ps 1';
/** `shoal run` gives up a task that ends more often than it restarts it. */
const MOST_KILLS = 5;
/** In the page: the state of the row of the task. */
const stateIs = (isAlive: boolean): string => `(() => {
  const row = [...document.querySelectorAll('#tasks tr')].find((one) => one.textContent.startsWith('${VICTIM}'));
  return row?.querySelector('.state')?.classList.contains('alive') === ${isAlive} && Date.now();
})()`;

/** From the signal until the browser shows that the task is not alive, in milliseconds. */
async function killedAndShown(browser: Browser, job: WatchedJob): Promise<number> {
  const context = await browser.newContext({
    // What this program asks the page is text, which its policy forbids to execute.
    bypassCSP: true,
    extraHTTPHeaders: { authorization: `Bearer ${job.token}` },
  });
  try {
    const page = await context.newPage();
    await page.goto(await job.pageAddress());
    await page.waitForFunction(stateIs(true), undefined, { timeout: WAIT_MS });
    const shown = page.waitForFunction(stateIs(false), undefined, { timeout: WAIT_MS, polling: 'raf' });
    const killed = await job.kill(VICTIM);
    const at = (await (await shown).jsonValue()) as number;
    await page.waitForFunction(stateIs(true), undefined, { timeout: WAIT_MS });
    await job.untilTraining();
    return at - killed;
  } finally {
    await context.close();
  }
}

interface Drawn {
  readonly ms: number;
  readonly bytes: number;
}

/** In the page: the time since the navigation, when the tasks and a curve are drawn. */
const DRAWN = `document.querySelectorAll('#tasks tbody tr').length > 0 &&
  document.querySelector('#curves canvas') !== null && performance.now()`;

async function drawn(browser: Browser): Promise<Drawn> {
  await using cluster = new SimulatedCluster(TASKS);
  const address = await cluster.listen();
  const context = await browser.newContext({ bypassCSP: true });
  try {
    const page = await context.newPage();
    const network = await context.newCDPSession(page);
    await network.send('Network.enable');
    let bytes = 0;
    network.on('Network.loadingFinished', ({ encodedDataLength }) => {
      bytes += encodedDataLength;
    });
    await page.goto(address, { waitUntil: 'commit' });
    const seen = await page.waitForFunction(DRAWN, undefined, { timeout: WAIT_MS, polling: 'raf' });
    return { ms: (await seen.jsonValue()) as number, bytes };
  } finally {
    await context.close();
  }
}
