/** The house rules that a machine can check: who may import whom, no cycles, how long a file may be. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import {
  findCycles,
  isForTests,
  isGenerated,
  parse,
  readSources,
  roomOf,
  SRC,
} from './architecture/sources.js';

/** A room may import itself and the rooms before it. */
const ROOMS = [
  'errors',
  'async',
  'bytes',
  'proto',
  'native',
  'tensor',
  'graph',
  'ops',
  'variables',
  'gradients',
  'layers',
  'lookup',
  'optimizers',
  'session',
  'formats',
  'store',
  'cluster',
  'checkpoint',
  'input',
  'summary',
  'train',
  'saved-model',
  'serving',
  'observe',
  'job',
  'front',
  'cli',
];

/** Rooms that may import less than all that stand before them. */
const NARROWER: Readonly<Record<string, readonly string[]>> = {
  formats: ['errors', 'async', 'bytes', 'proto'],
};

const LONGEST_FILE = 500;
const USUAL_FILE = 200;

const sources = readSources();
const program = sources.filter(({ path }) => !isForTests(path));

const allowed = (from: string, to: string): boolean =>
  from === to || (NARROWER[from] ?? ROOMS.slice(0, Math.max(0, ROOMS.indexOf(from)))).includes(to);

describe('the rooms', () => {
  test('are all in the table', () => {
    expect(
      [...new Set(sources.map(({ path }) => roomOf(path)))].filter((room) => !ROOMS.includes(room)),
    ).toEqual([]);
  });

  test('import only rooms that stand before them', () => {
    const wrong = program.flatMap(({ path, imports }) =>
      imports
        .filter(({ file }) => file !== undefined && !allowed(roomOf(path), roomOf(file)))
        .map(({ specifier }) => `${path} imports ${specifier}`),
    );
    expect(wrong).toEqual([]);
  });

  test('import nothing that only tests use', () => {
    const wrong = program.flatMap(({ path, imports }) =>
      imports
        .filter(({ file }) => file !== undefined && isForTests(file))
        .map(({ file }) => `${path}: ${file}`),
    );
    expect(wrong).toEqual([]);
  });
});

describe('imports', () => {
  test('name files that exist', () => {
    const missing = sources.flatMap(({ path, imports }) =>
      imports
        .filter(({ file }) => file !== undefined && !existsSync(join(SRC, file)))
        .map(({ specifier }) => `${path}: ${specifier}`),
    );
    expect(missing).toEqual([]);
  });

  test('make no cycle of files that need each other to load', () => {
    expect(findCycles(sources).map((cycle) => cycle.join(' → '))).toEqual([]);
  });

  test('of a cycle are found, those of types and lazy ones are not taken for one', () => {
    const a = parse('x/a.ts', "import { b } from './b.js';");
    const back = (text: string) => findCycles([a, parse('x/b.ts', text)]);
    expect(back("export { a } from './a.js';")).toEqual([['x/a.ts', 'x/b.ts', 'x/a.ts']]);
    expect(back("import type { A } from './a.js'; export type { B } from './a.js';")).toEqual([]);
    expect(back("const later = () => import('./a.js');")).toEqual([]);
  });
});

describe('files', () => {
  const written = sources.filter(({ path }) => !isGenerated(path));

  test(`have at most ${LONGEST_FILE} lines`, () => {
    expect(
      written.filter(({ lines }) => lines > LONGEST_FILE).map(({ path, lines }) => `${path}: ${lines}`),
    ).toEqual([]);
  });

  test(`are mostly below ${USUAL_FILE} lines`, () => {
    const short = written.filter(({ lines }) => lines <= USUAL_FILE).length;
    expect(short / written.length).toBeGreaterThan(0.75);
  });

  test('say `any` in the native room only', () => {
    const wrong = sources
      .filter(({ path }) => roomOf(path) !== 'native' && !isGenerated(path))
      .flatMap(({ path, anyLines }) => anyLines.map((line) => `${path}:${line}`));
    expect(wrong).toEqual([]);
  });
});
