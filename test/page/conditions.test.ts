/** The page of a real cluster in trouble: different releases, a chief that is cut off, then dead, and the own task cut off. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { buildPage } from '../../scripts/dev/page.mjs';
import type { PageState } from '../../src/app/page/state.js';
import { askStatus } from '../../src/distributed/cluster/agent/status.js';
import { shoal } from '../cli/shoal-process.js';
import { type TaskProcess, TaskProcesses } from '../cluster/processes.js';
import { makeRelease } from '../cluster/release.js';
import { openBrowser, openPage } from './browser.js';
import { FakeCluster, fakeState, fakeTask } from './fake-cluster.js';

let home: string;
let browser: Browser;

beforeAll(async () => {
  home = mkdtempSync(join(tmpdir(), 'shoal-conditions-'));
  await buildPage();
  browser = await openBrowser();
});

afterAll(async () => {
  await browser?.close();
  rmSync(home, { recursive: true, force: true });
});

const row = (page: Page, task: string) => page.locator('#tasks tr', { hasText: task });

/** A task that is stopped neither answers nor closes a connection, as behind a network that is cut. */
const cutOff = ({ child }: TaskProcess) => child.kill('SIGSTOP');
const connect = ({ child }: TaskProcess) => child.kill('SIGCONT');

async function addressOf(task: TaskProcess): Promise<string> {
  await task.waitForOutput(/agent at [\d.]+:\d+/);
  return /agent at ([\d.]+:\d+)/.exec(task.output())![1]!;
}

test('different releases, a chief that is cut off or dead, and a page that is cut off are announced', {
  timeout: 600_000,
}, async () => {
  const next = makeRelease(join(home, 'next'), { release: '90.0.0', versions: {} });
  await using tasks = await TaskProcesses.create('counting-job.ts', 2, 1, { COUNTING_STEPS: '1000000' });
  const ps = tasks.start('ps', 0);
  // A copy of the sources is transpiled when it starts.
  await addressOf(tasks.start('ps', 1, [], undefined, {}, next));
  const chief = tasks.start('worker', 0);
  await chief.waitForOutput(/step \d+ of/);
  const address = await addressOf(ps);
  const { page } = await openPage(browser, `http://${address}/page`);
  await page.getByText('live', { exact: true }).waitFor();
  await page.getByText(/different releases of Shoal: \S+ \(ps 0, worker 0\); 90\.0\.0 \(ps 1\)\./).waitFor();
  expect(await page.getByRole('alert').textContent()).toBe('');
  const memory = () =>
    row(page, 'worker 0')
      .getByText(/\d MB$/)
      .first()
      .textContent();
  expect(await memory()).toMatch(/\d MB$/);

  // The page shows the records that the command prints.
  const printed = JSON.parse((await shoal(['status', '--json', '--agent', address], { cwd: home })).stdout);
  const asked = await askStatus({ addresses: [address], security: { kind: 'none' } });
  const shown = (await (await fetch(`http://${address}/page/state`)).json()) as PageState;
  const fixed = ({
    task,
    incarnation,
    first,
    agentAddress,
    host,
    pid,
    status,
  }: PageState['tasks'][number]) => {
    return { task, incarnation, first, agentAddress, host, pid, status };
  };
  const byTask = (a: { task: string }, b: { task: string }) => a.task.localeCompare(b.task);
  for (const { members, chief: its, epoch, cluster } of [printed, asked]) {
    expect(shown.tasks.map(fixed).sort(byTask)).toEqual(members.map(fixed).sort(byTask));
    expect(shown).toMatchObject({ chief: its, epoch, cluster });
  }

  cutOff(chief);
  const alert = page.getByRole('alert');
  await alert.getByText(/The chief, worker 0, (does not answer|is lost)/).waitFor();
  await row(page, 'worker 0')
    .getByText(/as of [\d.]+ (s|min) ago/)
    .waitFor();
  const kept = await memory();
  expect(kept).toMatch(/\d MB$/);
  connect(chief);
  await row(page, 'worker 0').locator('.state.alive').waitFor();
  await expect.poll(() => alert.textContent(), { timeout: 60_000 }).toBe('');

  chief.child.kill('SIGKILL');
  await alert.getByText('The chief, worker 0, is lost').waitFor();
  await row(page, 'worker 0')
    .getByText(/as of [\d.]+ (s|min) ago/)
    .waitFor();
  expect(await memory()).toMatch(/\d MB$/);

  cutOff(ps);
  await alert.getByText(/ps 0 does not answer\. This is the last state, [\d.]+ (s|min) old/).waitFor();
  await page.getByText(/^no connection for/).waitFor();
  const other = await alert.getByRole('link', { name: 'ps 1' }).getAttribute('href');
  expect(await row(page, 'ps 0').textContent()).toMatch(/\d MB/);
  // The other task shows the cluster too.
  expect((await fetch(other!.replace(/page$/, 'page/state'))).status).toBe(200);
  connect(ps);
  await page.getByText('live', { exact: true }).waitFor();
});

test('a task of another release is named, and one that is lost does not count', async () => {
  const other = fakeTask('/job:worker/task:1', {});
  const upgraded = { ...other, report: { ...other.report!, release: '0.2.0' } };
  const state = fakeState();
  const withOther = (task: typeof other) => state.tasks.map((one) => (one.task === task.task ? task : one));
  await using cluster = new FakeCluster({ ...state, tasks: withOther(upgraded) });
  const { page } = await openPage(browser, await cluster.listen());
  const note = page.getByText(
    'The tasks run different releases of Shoal: 0.1.0 (ps 0, ps 1, worker 0); 0.2.0 (worker 1).',
  );
  await note.waitFor();
  cluster.update({ tasks: withOther({ ...upgraded, status: 'dead', curves: [] }) });
  await note.waitFor({ state: 'detached' });
});
