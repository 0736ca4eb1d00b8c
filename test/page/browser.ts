/** A real browser for tests of the page: Debian's chromium, or that of SHOAL_CHROMIUM. */
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core';

const PLACES = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];

export async function openBrowser(): Promise<Browser> {
  const executablePath = process.env.SHOAL_CHROMIUM ?? PLACES.find((path) => existsSync(path));
  if (executablePath === undefined)
    throw new Error(`there is no browser at ${PLACES.join(', ')}: install Debian's package chromium`);
  // In a container root has no sandbox for it.
  return await chromium.launch({ executablePath, args: ['--no-sandbox'] });
}

export interface OpenedPage {
  readonly page: Page;
  /** What the browser complains about: errors of scripts, violations of the policy, requests that failed. */
  readonly complaints: string[];
}

export async function openPage(
  browser: Browser,
  url: string,
  options: BrowserContextOptions = {},
): Promise<OpenedPage> {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  const complaints: string[] = [];
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('console', (message) => {
    if (message.type() === 'error') complaints.push(message.text());
  });
  await page.goto(url);
  return { page, complaints };
}

const AXE = createRequire(import.meta.url).resolve('axe-core/axe.min.js');

/** What axe finds wrong, as text. */
export async function accessibilityProblems(page: Page): Promise<readonly string[]> {
  // The policy of the page forbids foreign scripts; this evaluation is not subject to it.
  await page.evaluate(readFileSync(AXE, 'utf8'));
  const results = (await page.evaluate('axe.run()')) as {
    violations: { id: string; nodes: { html: string; failureSummary?: string }[] }[];
  };
  return results.violations.flatMap(({ id, nodes }) =>
    nodes
      .slice(0, 3)
      .map(({ html, failureSummary }) => `${id}: ${html.slice(0, 200)} ${failureSummary ?? ''}`),
  );
}
