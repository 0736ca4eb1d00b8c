/**
 * `npm run bench [-- NAME…] [--json] [--write] [--FLAG=VALUE…]`: runs the named benchmarks; default: all. With --write
 * the results replace those in docs/benchmarks.md.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { checkSpace } from '../scripts/setup/disk-space.mjs';
import { describeError } from '../src/base/errors/errors.js';
import { asShoalError, locateTensorFlow } from '../src/tensorflow/native/library/locate.js';
import { ONEDNN_VARIABLE, oneDnnSetting } from '../src/tensorflow/native/library/onednn.js';
import { type Benchmark, oraclePython, ROOT, type Row, type Table } from './harness.js';
import { circumstancesNow, type Section, show, updatedPage } from './results-page.js';

const args = process.argv.slice(2);
const json = args.includes('--json');
const flags = new Map(
  args.flatMap((arg) => {
    const [, name, value] = /^--([^=]+)=(.*)$/.exec(arg) ?? [];
    return name === undefined ? [] : [[name, value ?? ''] as const];
  }),
);
const selected = args.filter((arg) => !arg.startsWith('-'));
const NOT_BENCHMARKS = new Set(['main.ts', 'harness.ts', 'results-page.ts']);

const names = readdirSync(join(ROOT, 'bench'))
  .filter((file) => file.endsWith('.ts') && !NOT_BENCHMARKS.has(file))
  .map((file) => file.replace(/\.ts$/, ''));

if (args.includes('--help') || selected.some((name) => !names.includes(name))) {
  console.log('npm run bench [-- NAME…] [--json] [--write] [--FLAG=VALUE…]\n\nBenchmarks:');
  for (const name of names) console.log(`  ${name}`);
  process.exit(args.includes('--help') ? 0 : 2);
}

// Benchmarks measure the built package; --no-build uses the existing build.
if (!args.includes('--no-build')) {
  const built = spawnSync('npm', ['run', '--silent', 'build'], {
    cwd: ROOT,
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  if (built.status !== 0) process.exit(built.status ?? 1);
}

// Both sides compute with the same kernels.
const oneDnn = oneDnnSetting();
if (oneDnn !== undefined) process.env[ONEDNN_VARIABLE] = oneDnn;

const load = async (name: string): Promise<Benchmark> =>
  ((await import(`./${name}.js`)) as { benchmark: Benchmark }).benchmark;
const benchmarks: Benchmark[] = [];
for (const name of selected.length > 0 ? selected : names) benchmarks.push(await load(name));
await checkPrerequisites(benchmarks);

let missed = 0;
const measured: Section[] = [];
for (const benchmark of benchmarks) {
  const circumstances = circumstancesNow(locateTensorFlow().version ?? 'of an unknown version');
  const rows: Row[] = [];
  const tables: Table[] = [];
  measured.push({ name: benchmark.name, about: benchmark.about, results: { rows, tables, circumstances } });
  if (!json) console.log(`${benchmark.name}: ${benchmark.about}`);
  await benchmark.run(
    (row: Row) => {
      rows.push(row);
      if (row.goal !== undefined && row.ratio < row.goal) missed += 1;
      if (json) {
        console.log(JSON.stringify(row));
        return;
      }
      const goal =
        row.goal === undefined
          ? ''
          : `  goal ${Number(row.goal.toFixed(2))}: ${row.ratio >= row.goal ? 'met' : 'MISSED'}`;
      console.log(
        `  ${row.row.padEnd(34)} shoal ${show(row.shoal)} ${row.unit}, ${row.baselineName ?? 'python'} ${show(row.baseline)} ${row.unit}: ` +
          `ratio ${row.ratio.toFixed(2)} (${row.spread.map((r) => r.toFixed(2)).join(' to ')})${goal}`,
      );
    },
    (line) => {
      if (!json) console.log(`  ${line}`);
    },
    flags,
    (table) => {
      tables.push(table);
      if (json) console.log(JSON.stringify(table));
      else for (const cells of [table.head, ...table.lines]) console.log(`  ${cells.join(' · ')}`);
    },
  );
}
if (args.includes('--write')) await writePage(measured);
process.exitCode = missed > 0 ? 1 : 0;

async function writePage(sections: readonly Section[]): Promise<void> {
  const file = join(ROOT, 'docs/benchmarks.md');
  const page = existsSync(file) ? readFileSync(file, 'utf8') : '';
  const all = await Promise.all([...names].sort().map(load));
  writeFileSync(file, updatedPage(page, sections, all));
  console.error(`wrote ${file}`);
}

/** Exits with a message if a prerequisite of a benchmark is missing. */
async function checkPrerequisites(all: readonly Benchmark[]): Promise<void> {
  try {
    oraclePython();
    for (const { name, disk } of all) {
      if (!disk) continue;
      const { directory, bytes } = disk(flags);
      mkdirSync(directory, { recursive: true });
      const hint = 'Free some space, or set a larger disk or smaller sizes with the flags of the benchmark.';
      await checkSpace(`benchmark ${name}`, directory, bytes, { hint });
    }
  } catch (error) {
    console.error(describeError(asShoalError(error)));
    process.exit(1);
  }
}
