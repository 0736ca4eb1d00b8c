import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import ts from 'typescript';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

let scratch: string;

/** The pool is per process, so every case starts plain Node, without a loader that uses the pool itself. */
beforeAll(() => {
  scratch = mkdtempSync(join(tmpdir(), 'shoal-pool-'));
  const source = readFileSync(new URL('./thread-pool.ts', import.meta.url), 'utf8');
  for (const [module, extension] of [
    [ts.ModuleKind.CommonJS, 'cjs'],
    [ts.ModuleKind.ESNext, 'mjs'],
  ] as const) {
    const { outputText } = ts.transpileModule(source, {
      compilerOptions: { module, target: ts.ScriptTarget.ES2023 },
    });
    writeFileSync(join(scratch, `pool.${extension}`), outputText);
  }
});

afterAll(() => rmSync(scratch, { recursive: true, force: true }));

function inNode(kind: 'cjs' | 'mjs', body: string, size?: string): unknown {
  const load = kind === 'cjs' ? "const pool = require('./pool.cjs');" : "import * as pool from './pool.mjs';";
  const entry = join(scratch, `entry.${kind}`);
  writeFileSync(entry, `${load}\nconsole.log(JSON.stringify((() => { ${body} })()));`);
  const { UV_THREADPOOL_SIZE: _size, SHOAL_THREAD_POOL: _record, ...env } = process.env;
  const given = size === undefined ? {} : { UV_THREADPOOL_SIZE: size };
  return JSON.parse(execFileSync(process.execPath, [entry], { env: { ...env, ...given }, encoding: 'utf8' }));
}

describe('the size of the pool', () => {
  test('is four by default', () => {
    expect(inNode('mjs', 'return pool.threadPool()')).toEqual({ size: 4, from: 'default', certain: true });
  });

  test('is the value of the environment variable at process start', () => {
    const expected = { size: 12, from: 'environment', certain: true };
    expect(inNode('mjs', 'return pool.threadPool()', '12')).toEqual(expected);
  });

  test('has the same bounds as in libuv', () => {
    expect(inNode('mjs', 'return pool.threadPool().size', '5000')).toBe(1024);
    expect(inNode('mjs', 'return pool.threadPool().size', 'many')).toBe(1);
  });
});

describe.runIf(process.platform === 'linux')('sizing the pool', () => {
  test('takes effect in a CommonJS entry, and is remembered', () => {
    const body = 'return [pool.sizeThreadPool(9), pool.threadPool()]';
    expect(inNode('cjs', body)).toEqual([
      { tookEffect: true, size: 9 },
      { size: 9, from: 'shoal', certain: true },
    ]);
  });

  test('reports that it is too late once the pool runs, and leaves the environment unchanged', () => {
    const body =
      "require('fs').stat('/', () => {}); return [pool.sizeThreadPool(9), process.env.UV_THREADPOOL_SIZE]";
    expect(inNode('cjs', body)).toEqual([
      {
        tookEffect: false,
        pool: { size: 4, from: 'default', certain: true },
        why: expect.stringContaining('before'),
      },
      null,
    ]);
  });

  test('is uncertain if other code set the variable in the process', () => {
    const body = "process.env.UV_THREADPOOL_SIZE = '9'; return pool.threadPool()";
    expect(inNode('mjs', body)).toEqual({ size: 4, from: 'default', certain: false });
  });
});
