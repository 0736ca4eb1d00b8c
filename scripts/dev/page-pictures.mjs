// Takes the pictures of the page for the guide: trains a job on a local cluster, kills a ps, and opens a browser.
//
//   node scripts/dev/page-pictures.mjs
//
// It needs a browser (Debian's chromium, or SHOAL_CHROMIUM), and writes docs/page-light.webp and docs/page-dark.webp.
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const SIZE = { width: 1280, height: 1000 };
const TRAIN_MS = 60_000;

const wait = (ms) => new Promise((done) => setTimeout(done, ms));
const tasks = mkdtempSync(join(tmpdir(), 'shoal-pictures-'));
const cluster = spawn(
  process.execPath,
  [
    ...[join(ROOT, 'bin/shoal.cjs'), 'run', join(ROOT, 'examples/linear-regression/job.ts')],
    ...['--ps', '2', '--workers', '3', '--wipe', '--dir', tasks, '--last-step', '200000'],
    ...['--', '--rate', '0.003', '--save-secs', '5'],
  ],
  { stdio: ['ignore', 'pipe', 'inherit'] },
);
let output = '';
cluster.stdout.setEncoding('utf8').on('data', (text) => {
  output += text;
});
const found = async (pattern) => {
  for (const end = Date.now() + 120_000; Date.now() < end && cluster.exitCode === null; await wait(200)) {
    const match = pattern.exec(output);
    if (match) return match[1];
  }
  throw new Error(`the cluster does not say ${pattern}:\n${output}`);
};

const browser = await chromium.launch({
  executablePath: process.env.SHOAL_CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox'],
});
try {
  await found(/(saved model)/);
  const address = await found(/page: (http:\S+)/);
  const { token } = JSON.parse(readFileSync(join(tasks, 'cluster.json'), 'utf8'));
  await wait(TRAIN_MS / 2);
  process.kill(Number(await found(/ps 1 is process (\d+)/)), 'SIGKILL');
  await wait(TRAIN_MS / 2);
  for (const colorScheme of ['light', 'dark']) {
    const context = await browser.newContext({ colorScheme, viewport: SIZE });
    const page = await context.newPage();
    await page.goto(address);
    await page.getByLabel(/Token/).fill(token);
    await page.getByRole('button', { name: 'Log in' }).click();
    await page.getByText('live', { exact: true }).waitFor();
    await wait(2000);
    if (colorScheme === 'dark')
      await page.evaluate("document.getElementById('checkpoints').scrollIntoView()");
    await wait(1000);
    await savePicture(context, page, join(ROOT, `docs/page-${colorScheme}.webp`));
  }
} finally {
  await browser.close();
  cluster.kill('SIGINT');
  await new Promise((done) => (cluster.exitCode === null ? cluster.once('exit', done) : done()));
  rmSync(tasks, { recursive: true, force: true });
}

async function savePicture(context, page, path) {
  const session = await context.newCDPSession(page);
  const { data } = await session.send('Page.captureScreenshot', { format: 'webp', quality: 80 });
  writeFileSync(path, Buffer.from(data, 'base64'));
}
