/** The page of a real cluster in a real browser: the login, live figures, a kill with a lost disk, and the recovery. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { buildPage } from '../../scripts/dev/page.mjs';
import { readClusterFile } from '../../src/app/job/launcher/cluster-file.js';
import { pageCode } from '../../src/app/page/serve/access.js';
import { encodeExample, TFRecordWriter } from '../../src/tensorflow/formats/index.js';
import { type ShoalProcess, shoal, startShoal } from '../cli/shoal-process.js';
import { openBrowser, openPage } from './browser.js';

const JOB = `
  import { defineJob, tf } from 'shoal';
  const FEATURES = { x: tf.fixedLenFeature([], 'float32') };
  export default defineJob({
    name: 'seen',
    input: () => tf.data.tfRecord('points.tfrecord').repeat().batch(10).parseExample(FEATURES),
    model({ input }) {
      const b = tf.variable('b', { shape: [10], initializer: tf.zerosInitializer() });
      const code = tf.variableScope('encoder', () => {
        const large = tf.variable('large', { shape: [400_000], initializer: tf.zerosInitializer() });
        return large.mean().square();
      });
      const loss = code.add(b.mean()).sub(input.x.mean()).square();
      tf.summary.scalar('bias', b.mean());
      tf.summary.histogram('inputs', input.x);
      tf.summary.text('note', tf.constant(['<img src=x onerror="window.hacked=1">']));
      return { loss, optimizer: tf.train.sgd(0.01), outputs: { code: input.x.add(b.mean()) } };
    },
    train: { lastStep: 1e9, input: 'shards', checkpoint: { everySecs: 10 }, summaries: { everySteps: 10 } },
    export: { everySecs: 15, publish: ['127.0.0.1:1'] },
  });`;

let scratch: string;
let browser: Browser;
let launcher: ShoalProcess;

beforeAll(async () => {
  scratch = mkdtempSync(join(tmpdir(), 'shoal-page-'));
  writeFileSync(join(scratch, 'job.ts'), JOB);
  const records = new TFRecordWriter(join(scratch, 'points.tfrecord'));
  for (let i = 0; i < 1000; i++) await records.write(encodeExample({ x: Float32Array.of(i / 1000) }));
  await records.close();
  await buildPage();
  browser = await openBrowser();
  launcher = startShoal(['run', 'job.ts', '--ps', '2', '--workers', '1', '--wipe'], { cwd: scratch });
});

afterAll(async () => {
  await browser?.close();
  launcher?.child.kill('SIGKILL');
  await launcher?.ended;
  rmSync(scratch, { recursive: true, force: true });
});

async function until<T>(what: string, find: () => T | undefined | Promise<T | undefined>): Promise<T> {
  for (const end = Date.now() + 120_000; ; ) {
    const found = await find();
    if (found !== undefined) return found;
    if (Date.now() > end) throw new Error(`${what}:\n${launcher.output.stdout}${launcher.output.stderr}`);
    await new Promise((tick) => setTimeout(tick, 200));
  }
}

const stepOn = async (page: Page): Promise<number> =>
  Number((await page.locator('.figures dd').first().textContent())?.split(' ')[0]?.replaceAll(',', ''));

test('a ps is killed and loses its disk: the page shows the loss, the recovery and the copies', async () => {
  const address = await until('the address', () => /page: (http:\S+)/.exec(launcher.output.stdout)?.[1]);
  await until('a save', () => (/saved model/.test(launcher.output.stdout) ? true : undefined));
  const { token } = readClusterFile(join(scratch, '.shoal/seen'))!;
  // A file, as here, does not get the code.
  expect(launcher.output.stdout).not.toContain(pageCode(token));
  const printed = await shoal(['page'], { cwd: scratch });
  expect(printed.stdout).toContain(`code: ${pageCode(token)}`);
  expect(printed.stdout).toContain(`${address}  /job:worker/task:0 (chief)`);

  const { page } = await openPage(browser, address);
  await page.getByLabel(/Token/).fill('not the token');
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByRole('alert').getByText('neither the token nor the code').waitFor();
  await page.getByLabel(/Token/).fill(pageCode(token));
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByText('live', { exact: true }).waitFor();
  expect(page.url()).toBe(address);
  expect(await page.evaluate('document.cookie')).toBe('');

  const first = await stepOn(page);
  await until('live steps', async () => ((await stepOn(page)) > first ? true : undefined));
  for (const name of ['loss', 'steps/s', 'bias'])
    await page.getByRole('img', { name: new RegExp(`^Curve of ${name}\\.`) }).waitFor();
  const latest = () => page.getByRole('img', { name: /^Curve of loss\./ }).getAttribute('aria-label');
  const before = await latest();
  await until('a live curve', async () => ((await latest()) !== before ? true : undefined));
  await page.locator('#checkpoints .copy.good').first().waitFor();

  const text = (id: string) => page.locator(`#${id}`).textContent();
  await page.locator('#model').scrollIntoViewIfNeeded();
  await page.getByText(/ps\/\d holds (9\d|100\.0) % of the bytes of the variables/).waitFor();
  await page.getByRole('button', { name: 'encoder', exact: true }).click();
  await page.getByRole('img', { name: /^How tensors flow in encoder: .*large/ }).waitFor();
  expect(await text('input')).toMatch(/Records consumed\s*[\d,]+/);
  await page.locator('#histograms').scrollIntoViewIfNeeded();
  await page.getByRole('img', { name: /^Distribution of inputs\./ }).waitFor();
  await page.locator('#histograms').getByText('onerror').waitFor();
  expect(await page.evaluate('window.hacked')).toBeUndefined();
  await page.locator('#exports .servers').first().getByText('127.0.0.1:1 waiting').waitFor();

  const pids = [...launcher.output.stdout.matchAll(/ps 1 is process (\d+)/g)].map(([, pid]) => Number(pid));
  process.kill(pids.at(-1)!, 'SIGKILL');
  const timeline = page.locator('#timeline');
  await timeline
    .getByText(/ps 1 is (lost|back)/)
    .first()
    .waitFor();
  await timeline
    .getByText(/trains again after .*lost \/job:ps\/task:1/)
    .first()
    .waitFor({ timeout: 120_000 });
  await page.locator('#tasks tr', { hasText: 'ps 1' }).locator('.state.alive').waitFor();
  const after = await stepOn(page);
  await until('steps after the recovery', async () => ((await stepOn(page)) > after ? true : undefined));
  // Copies that were on the lost disk are made again.
  await page.locator('#checkpoints .health.good').waitFor();

  await page.locator('#logs select').first().selectOption('/job:worker/task:0');
  await page.locator('#logs .log').getByText('the cluster is complete again').first().waitFor();
});

test('a job that has ended is shown from its directory', async () => {
  launcher.child.kill('SIGINT');
  await launcher.ended;
  const shown = startShoal(['page', '.shoal/seen'], { cwd: scratch });
  try {
    const url = await until('the address', () => /page: (http:\S+)/.exec(shown.output.stdout)?.[1]);
    const { page, complaints } = await openPage(browser, url);
    await page.getByText('not running').waitFor();
    await page
      .getByRole('img', { name: /^Curve of loss\.|^Curve of bias\./ })
      .first()
      .waitFor();
    await page.locator('#checkpoints .copy.good').first().waitFor();
    await page.locator('#exports td').first().waitFor();
    await page.locator('#model').scrollIntoViewIfNeeded();
    await page.getByText(/ps\/\d holds (9\d|100\.0) % of the bytes/).waitFor();
    await page.locator('#histograms').scrollIntoViewIfNeeded();
    await page.getByRole('img', { name: /^Distribution of inputs\./ }).waitFor();
    expect(complaints).toEqual([]);
  } finally {
    shown.child.kill('SIGINT');
  }
  expect(await shown.ended).toBe(0);
  const nothing = await shoal(['page', 'nowhere'], { cwd: scratch });
  expect(nothing.stderr).toMatch(/SHOAL_NOT_FOUND|there is no directory/);
  expect(nothing.code).not.toBe(0);
});
