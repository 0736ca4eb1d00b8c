/** The page in a real browser, of a cluster that is made up: looks, keyboard, phones, hostile texts, a lost connection. */
import type { Browser, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { buildPage } from '../../scripts/dev/page.mjs';
import { accessibilityProblems, openBrowser, openPage } from './browser.js';
import { FakeCluster, fakeModel, fakeState, fakeSummaries, fakeTask } from './fake-cluster.js';

let browser: Browser;
let cluster: FakeCluster;

beforeAll(async () => {
  await buildPage();
  browser = await openBrowser();
});
afterAll(() => browser?.close());
afterEach(async () => {
  for (const context of browser.contexts()) await context.close();
  await cluster?.[Symbol.asyncDispose]();
});

async function serve(state = fakeState()): Promise<string> {
  cluster = new FakeCluster(state);
  return await cluster.listen();
}

/** Parts of the page are loaded when they are on the screen. */
async function showAll(page: Page): Promise<void> {
  await page.locator('#model').scrollIntoViewIfNeeded();
  await page.getByRole('img', { name: /^How tensors flow/ }).waitFor();
  await page.locator('#model summary').click();
  await page.locator('#histograms').scrollIntoViewIfNeeded();
  await page.getByRole('img', { name: /^Distribution of/ }).waitFor();
}

test.each(['light', 'dark'] as const)('axe finds nothing in the %s theme', async (colorScheme) => {
  const { page, complaints } = await openPage(browser, await serve(), { colorScheme });
  await page.getByText('live', { exact: true }).waitFor();
  await page.locator('#logs select').first().selectOption('/job:ps/task:0');
  await page.getByText('/job:ps/task:0: step 6000 of 10000').waitFor();
  await showAll(page);
  expect(await page.evaluate('document.documentElement.dataset.theme')).toBe(colorScheme);
  expect(await accessibilityProblems(page)).toEqual([]);
  await page.setViewportSize({ width: 360, height: 800 });
  expect(await accessibilityProblems(page)).toEqual([]);
  expect(complaints).toEqual([]);
});

test('on a phone nothing is wider than the screen', async () => {
  const { page } = await openPage(browser, await serve(), { viewport: { width: 360, height: 740 } });
  await page.getByText('live', { exact: true }).waitFor();
  await showAll(page);
  expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(360);
});

test('everything is reached and used by keyboard', async () => {
  const { page } = await openPage(browser, await serve());
  await page.getByText('live', { exact: true }).waitFor();
  const focused = () =>
    page.evaluate(
      "(document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent).trim()",
    );
  await page.keyboard.press('Tab');
  expect(await focused()).toBe('Skip to the content');
  const reached = new Set<unknown>();
  for (let i = 0; i < 90; i++) {
    await page.keyboard.press('Tab');
    reached.add(await focused());
    if (['Zoom in', 'dense1'].includes(String(await focused()))) await page.keyboard.press('Enter');
  }
  for (const name of ['Configuration', 'Zoom out', 'Earlier', 'All', 'the graph', 'dense1'])
    expect([...reached]).toContain(name);
  expect(
    await page.evaluate(
      "document.activeElement.closest('#page') !== null || document.activeElement === document.body",
    ),
  ).toBe(true);
  // The range is no longer that of all data.
  expect(await page.getByRole('button', { name: 'All', exact: true }).isEnabled()).toBe(true);
  await page.getByRole('img', { name: 'How tensors flow in dense1: kernel, MatMul' }).waitFor();
  const saves = page.getByLabel('Saves');
  await saves.focus();
  await page.keyboard.press('Space');
  expect(await page.getByText('saved model.ckpt-600').count()).toBe(0);
});

test('texts of the cluster are text: no script of theirs runs', async () => {
  const evil = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>"\'`';
  const state = fakeState({
    cluster: evil,
    tasks: [
      fakeTask('/job:worker/task:0', {
        host: evil,
        agentAddress: 'javascript:alert(1)//',
        curves: [{ name: evil, at: [1, 2], step: [1, 2], value: [1, 2] }],
      }),
    ],
    events: [{ id: evil, at: 5, type: 'saved', task: evil, text: evil }],
    configuration: [[evil, evil]],
    exports: [
      {
        ...{ version: evil, task: evil, path: evil, step: 1, at: 1, ms: 1, bytes: 1 },
        publications: [{ server: evil, state: 'published', at: 1, text: evil }],
      },
    ],
    checkpoints: [
      {
        ...{ name: evil, step: 1, attempt: evil, savedAtMs: 1, bytes: 1, tensors: 1 },
        files: [{ file: evil, size: 1, copies: { [evil]: 'good' } }],
      },
    ],
  });
  const { page, complaints } = await openPage(browser, await serve(state));
  cluster.lines = [evil];
  const [column] = fakeSummaries().histograms[0]!.columns;
  cluster.shownSummaries = fakeSummaries({
    histograms: [{ name: evil, task: evil, columns: [column!] }],
    texts: [{ name: evil, task: evil, at: 1, step: 1, text: evil }],
  });
  const unit = { name: evil, kind: 'module', text: evil, shape: evil } as const;
  cluster.shownModel = fakeModel({
    modules: ['', evil].map((path) => ({
      ...{ path, ops: 1, variables: 1, bytes: 1, tasks: [evil] },
      ...{ units: [unit, { ...unit, name: 'b', kind: 'op' }], edges: [[0, 1]] },
    })),
    variables: [{ name: evil, dtype: evil, shape: evil, bytes: 1, task: evil }],
    placement: [{ task: evil, variables: 1, bytes: 2e6 }],
  });
  await page.getByText('live', { exact: true }).waitFor();
  await page.locator('#logs select').first().selectOption('/job:worker/task:0');
  await page.locator('#logs .log').getByText('onerror').waitFor();
  await showAll(page);
  await page.locator('.unit.opens').first().click();
  expect(await page.evaluate('window.hacked')).toBeUndefined();
  expect(await page.locator('main img, main script').count()).toBe(0);
  expect(await page.locator('h1').textContent()).toBe(evil);
  expect(complaints).toEqual([]);
});

test('updates appear, and a chief that is lost is announced', async () => {
  const { page } = await openPage(browser, await serve());
  await page.getByText('live', { exact: true }).waitFor();
  const dead = fakeTask('/job:worker/task:0', { status: 'dead', reportAgeMs: 12_000, curves: [] });
  cluster.update({
    tasks: fakeState().tasks.map((task) => (task.task === dead.task ? dead : { ...task, curves: [] })),
    events: [{ id: 'x', at: Date.now(), type: 'lost', task: dead.task, text: 'is lost (node3)' }],
  });
  await page.getByRole('alert').getByText('The chief, worker 0, is lost').waitFor();
  await page.locator('#timeline').getByText('is lost (node3)').waitFor();
  const row = page.locator('#tasks tr', { hasText: 'worker 0' });
  expect(await row.textContent()).toContain('as of 12 s ago');
  // Its last figures stay.
  expect(await row.textContent()).toContain('251 MB');
});

test('without connection the last state stays, with its age, until the server is back', async () => {
  const url = await serve();
  const { page } = await openPage(browser, url);
  await page.getByText('live', { exact: true }).waitFor();
  await cluster[Symbol.asyncDispose]();
  const banner = page.getByRole('alert');
  await banner.getByText(/ps 0 does not answer. This is the last state, [\d.]+ s old/).waitFor();
  expect(await banner.getByRole('link').first().getAttribute('href')).toBe('http://127.0.0.1:2223/page');
  expect(await page.locator('#tasks').textContent()).toContain('251 MB');
  cluster = new FakeCluster(fakeState());
  await cluster.listen(Number(new URL(url).port));
  await page.getByText('live', { exact: true }).waitFor();
  expect(await banner.textContent()).toBe('');
});

test('the model shows which ps holds too much; the histogram, the input and the exports are there', async () => {
  const { page } = await openPage(browser, await serve());
  await page.getByText('live', { exact: true }).waitFor();
  await showAll(page);
  await page.getByText('ps/1 holds 91 % of the bytes of the variables: 3.0 MB of 3.3 MB.').waitFor();
  await page.locator('.unit.opens').click();
  await page.getByRole('img', { name: 'How tensors flow in dense1: kernel, MatMul' }).waitFor();
  const canvas = page.getByRole('img', { name: /^Distribution of dense1\/activations. At step 390/ });
  // Something is drawn: the middle is denser than the edge.
  await canvas.waitFor();
  const [middle, edge] = (await page.evaluate(`(() => {
    const canvas = document.querySelector('canvas[aria-label^="Distribution"]');
    const { width, height } = canvas;
    const at = (y) => canvas.getContext('2d').getImageData(width >> 1, y, 1, 1).data[3];
    return [at(height >> 1), at(2)];
  })()`)) as [number, number];
  expect(middle).toBeGreaterThan(edge + 50);
  expect(await page.locator('#input').textContent()).toMatch(/Epoch3 of 10.*158,000 of 600,000.*20 wait/);
  expect(await page.locator('#exports').textContent()).toMatch(/5,000.*3\.2 MB.*10\.0\.0\.9:8502 waiting/);
});

test('several runs have one legend, and are hidden one by one', async () => {
  const names = ['rate-0.1', 'rate-0.2'];
  const run = { directory: '/runs', lastStep: 600, loss: 0.1, params: 'rate 0.1', state: 'done' };
  const tasks = names.map((name) => ({ ...fakeTask('/job:worker/task:0', { report: null }), task: name }));
  const runs = names.map((name) => ({ ...run, name }));
  const { page } = await openPage(browser, await serve(fakeState({ live: false, runs, tasks })));
  await page.getByText('not running').waitFor();
  const loss = page.getByRole('img', { name: /^Curve of loss\./ });
  expect(await loss.getAttribute('aria-label')).toMatch(/rate-0\.1: .*, rate-0\.2: /);
  await page.getByLabel('Axis').selectOption('since');
  await page.getByRole('checkbox', { name: 'rate-0.1' }).uncheck();
  await expect.poll(() => loss.getAttribute('aria-label')).not.toContain('rate-0.1');
  expect(await accessibilityProblems(page)).toEqual([]);
});
