/** Importing has no side effects: it prints nothing, does not load TensorFlow and does not keep the process alive. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, test } from 'vitest';
import { locateTensorFlow } from '../../src/tensorflow/native/library/locate.js';
import { ROOT, startNode } from './run-setup.js';

// The client of the page is a program for browsers.
const modules = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts'))
  .filter((file) => !file.includes('/testing/') && !file.startsWith('app/page/client/'))
  .map((file) => pathToFileURL(join(ROOT, 'src', file)).href);

test.runIf(process.platform === 'linux')(
  'importing every module prints nothing and loads no library',
  async () => {
    const body = `
    import { readFileSync } from 'node:fs';
    for (const url of ${JSON.stringify(modules)}) await import(url);
    process.stdout.write('loaded: ' + readFileSync('/proc/self/maps', 'utf8').includes('libtensorflow'));`;
    const loader = pathToFileURL(join(ROOT, 'node_modules/tsx/dist/loader.mjs')).href;
    const { code, stdout, stderr } = await startNode(
      ['--import', loader, '--input-type=module', '-e', body],
      {
        SHOAL_TF_DIR: locateTensorFlow().dir,
      },
    ).ended;
    expect(stderr).toBe('');
    expect(stdout).toBe('loaded: false');
    expect(code).toBe(0);
  },
);
