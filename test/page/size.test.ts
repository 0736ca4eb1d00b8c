/** What a browser loads for the page. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { buildPage } from '../../scripts/dev/page.mjs';

const MOST_BYTES = 100_000;

test('the page has at most 100 kB, compressed, and loads nothing from elsewhere', async () => {
  const scratch = mkdtempSync(join(tmpdir(), 'shoal-page-'));
  try {
    await buildPage(scratch);
    const names = readdirSync(join(scratch, 'page')).filter((name) => name !== 'LICENSES.txt');
    expect(names.sort()).toEqual(['index.html', 'page.css', 'page.js']);
    const files = names.map((name) => readFileSync(join(scratch, 'page', name)));
    expect(files.reduce((sum, file) => sum + gzipSync(file).byteLength, 0)).toBeLessThan(MOST_BYTES);
    const html = files[0]!.toString('utf8');
    expect([...html.matchAll(/(?:src|href)="([^"]*)"/g)].map(([, target]) => target)).toEqual([
      'data:,',
      '/page/page.css',
      '/page/page.js',
    ]);
    for (const text of files.map(String))
      expect(text).not.toMatch(/@import|url\(["']?https?:|fetch\(["']https?:/);
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
});
