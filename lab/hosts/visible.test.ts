import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { visiblePaths } from './visible.js';

let root: string;
beforeEach(() => {
  root = realpathSync(mkdtempSync(join(tmpdir(), 'shoal-visible-')));
  mkdirSync(join(root, 'python', 'bin'), { recursive: true });
  mkdirSync(join(root, 'library', 'inner'), { recursive: true });
  writeFileSync(join(root, 'python', 'bin', 'python'), '');
});
afterEach(() => rmSync(root, { recursive: true }));

describe('visiblePaths', () => {
  it('shows what SHOAL_ variables name, a program with its surroundings', () => {
    const env = {
      SHOAL_PYTHON: join(root, 'python/bin/python'),
      SHOAL_NUMBER: '7',
      OTHER: join(root, 'library'),
    };
    expect(visiblePaths([root], [], env)).toEqual([{ target: 'python', source: join(root, 'python') }]);
  });

  it('shows the cache with the library of TensorFlow, wherever it is', () => {
    const cache = join(root, 'cache/shoal');
    mkdirSync(cache, { recursive: true });
    const shown = [{ target: 'cache/shoal', source: cache }];
    expect(visiblePaths([root], [], { XDG_CACHE_HOME: join(root, 'cache') })).toEqual(shown);
  });

  it('shows a path inside another once', () => {
    const asked = [join(root, 'library/inner'), join(root, 'library')];
    expect(visiblePaths([root], asked, {})).toEqual([{ target: 'library', source: join(root, 'library') }]);
  });

  it('omits paths that do not exist or are elsewhere', () => {
    expect(visiblePaths([root], [join(root, 'missing'), '/'], {})).toEqual([]);
  });
});
