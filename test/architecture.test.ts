/** The rules of the codebase that a program can check: import order, no cycles, the length of files. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { findCycles } from './architecture/cycles.js';
import {
  type Import,
  isForTests,
  isGenerated,
  moduleOf,
  parse,
  readSources,
  SRC,
} from './architecture/sources.js';

/**
 * The five groups of modules and their modules, in order: a module may import itself, the modules before it in its group,
 * and every module of the groups before.
 */
const GROUPS = {
  base: ['errors', 'files', 'async', 'bytes', 'metrics', 'text', 'proto'],
  tensorflow: [
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
    'summary',
  ],
  distributed: ['engine', 'store', 'cluster', 'checkpoint'],
  training: ['input', 'feature-column', 'train', 'saved-model'],
  app: ['page', 'serving', 'job', 'keras', 'tf', 'cli'],
};

/** The file of the package's main entry point, directly under src/, imports what it exports. */
const MODULES = [
  ...Object.entries(GROUPS).flatMap(([group, modules]) => modules.map((module) => `${group}/${module}`)),
  'index.ts',
];

/** Modules that may import fewer than all those before them. */
const NARROWER: Readonly<Record<string, readonly string[]>> = {
  'tensorflow/formats': ['base/errors', 'base/files', 'base/async', 'base/bytes', 'base/proto'],
  'distributed/engine': [
    'base/errors',
    'base/async',
    'base/bytes',
    'base/proto',
    'tensorflow/native',
    'tensorflow/tensor',
    'tensorflow/graph',
    'tensorflow/session',
  ],
};

/**
 * Inside these modules, in the same sense: subdirectories, and files of the module's own directory. A file that is not
 * listed comes last.
 */
const INSIDE: Readonly<Record<string, readonly string[]>> = {
  'tensorflow/gradients': [
    'indexed-slices.ts',
    'gradient-function.ts',
    'pieces.ts',
    'paths.ts',
    'ops',
    'registry.ts',
  ],
  'distributed/store': ['kept-files.ts', 'store.ts', 'blob-names.ts', 'sources.ts', 'disk', 'peers'],
  'distributed/cluster': ['spec', 'membership', 'agent', 'task', 'engines', 'grpc', 'runtime'],
  'distributed/checkpoint': ['format', 'reading', 'shard', 'protocol'],
  'training/input': ['dataset', 'files', 'queues', 'leases'],
  'training/train': ['recovery', 'task', 'checkpoints', 'leases', 'hooks', 'core', 'sessions', 'evaluation'],
  'training/saved-model': ['signatures', 'variables', 'graph', 'writing'],
  'app/page': ['state.ts', 'model', 'record', 'view', 'serve'],
  'app/job': ['definition', 'graph', 'directory', 'results', 'running'],
  'app/serving': [
    'status.ts',
    'requests.ts',
    'messages',
    'config',
    'metrics',
    'runs',
    'models',
    'core',
    'grpc',
    'rest',
    'publish',
  ],
};

/** Files that import each other for types; to be divided. */
const CIRCULAR = ['app/job/definition/define-job.ts', 'app/keras/layers.ts', 'app/keras/model.ts'];

const LONGEST_FILE = 500;
const USUAL_FILE = 200;

const sources = readSources();
const program = sources.filter(({ path }) => !isForTests(path));

const allowed = (from: string, to: string): boolean =>
  from === to || (NARROWER[from] ?? MODULES.slice(0, Math.max(0, MODULES.indexOf(from)))).includes(to);

/** The position of a file in the order of its module. */
function rankOf(path: string): number {
  const entry = path.split('/')[2] ?? '';
  const rank = INSIDE[moduleOf(path)]?.indexOf(entry) ?? -1;
  return rank < 0 ? Number.POSITIVE_INFINITY : rank;
}

describe('the modules', () => {
  test('are all listed', () => {
    expect(
      [...new Set(sources.map(({ path }) => moduleOf(path)))].filter((module) => !MODULES.includes(module)),
    ).toEqual([]);
  });

  test('import only modules before them, types included', () => {
    const wrong = program.flatMap(({ path, imports }) =>
      imports
        .filter(({ file }) => file !== undefined && !allowed(moduleOf(path), moduleOf(file)))
        .map(({ specifier }) => `${path} imports ${specifier}`),
    );
    expect(wrong).toEqual([]);
  });

  test('have a fixed import order inside', () => {
    const wrong = program.flatMap(({ path, imports }) =>
      imports
        .filter(
          ({ file }) =>
            file !== undefined && moduleOf(file) === moduleOf(path) && rankOf(file) > rankOf(path),
        )
        .map(({ file }) => `${path} imports ${file}`),
    );
    expect(wrong).toEqual([]);
  });

  test('do not import test helpers', () => {
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

  test('form no cycles at load time', () => {
    expect(findCycles(sources, ['value']).map((cycle) => cycle.join(' → '))).toEqual([]);
  });

  test('form no cycles, types included', () => {
    const cycles = findCycles(sources).filter((cycle) => !cycle.some((path) => CIRCULAR.includes(path)));
    expect(cycles.map((cycle) => cycle.join(' → '))).toEqual([]);
  });

  test('in a cycle are found; dynamic imports do not count', () => {
    const a = parse('x/a.ts', "import { b } from './b.js';");
    const back = (text: string, kinds?: Import['kind'][]) => findCycles([a, parse('x/b.ts', text)], kinds);
    const cycle = [['x/a.ts', 'x/b.ts', 'x/a.ts']];
    expect(back("export { a } from './a.js';")).toEqual(cycle);
    expect(back("import type { A } from './a.js';")).toEqual(cycle);
    expect(back("import type { A } from './a.js'; export type { B } from './a.js';", ['value'])).toEqual([]);
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

  test('use `any` only in the native module', () => {
    const wrong = sources
      .filter(({ path }) => moduleOf(path) !== 'tensorflow/native' && !isGenerated(path))
      .flatMap(({ path, anyLines }) => anyLines.map((line) => `${path}:${line}`));
    expect(wrong).toEqual([]);
  });
});
