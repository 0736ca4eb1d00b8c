/** `npm run bench [-- NAME…] [--json] [--FLAG=VALUE…]`: runs all benchmarks, or those named. */
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { type Benchmark, ROOT, type Row } from './harness.js';

const args = process.argv.slice(2);
const json = args.includes('--json');
const flags = new Map(
  args.flatMap((arg) => {
    const [, name, value] = /^--([^=]+)=(.*)$/.exec(arg) ?? [];
    return name === undefined ? [] : [[name, value ?? ''] as const];
  }),
);
const asked = args.filter((arg) => !arg.startsWith('-'));
const NOT_BENCHMARKS = new Set(['main.ts', 'harness.ts']);

const names = readdirSync(join(ROOT, 'bench'))
  .filter((file) => file.endsWith('.ts') && !NOT_BENCHMARKS.has(file))
  .map((file) => file.replace(/\.ts$/, ''));

if (args.includes('--help') || asked.some((name) => !names.includes(name))) {
  console.log('npm run bench [-- NAME…] [--json] [--FLAG=VALUE…]\n\nBenchmarks:');
  for (const name of names) console.log(`  ${name}`);
  process.exit(args.includes('--help') ? 0 : 2);
}

// Benchmarks measure the package as users get it; --no-build takes it as it was built before.
if (!args.includes('--no-build')) {
  const built = spawnSync('npm', ['run', '--silent', 'build'], {
    cwd: ROOT,
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  if (built.status !== 0) process.exit(built.status ?? 1);
}

const show = (value: number): string =>
  value >= 1000 ? Math.round(value).toLocaleString('en') : Number(value.toPrecision(3)).toString();

let missed = 0;
for (const name of asked.length > 0 ? asked : names) {
  const { benchmark } = (await import(`./${name}.js`)) as { benchmark: Benchmark };
  if (!json) console.log(`${benchmark.name}: ${benchmark.about}`);
  await benchmark.run(
    (row: Row) => {
      if (row.goal !== undefined && row.ratio < row.goal) missed += 1;
      if (json) {
        console.log(JSON.stringify(row));
        return;
      }
      const goal =
        row.goal === undefined
          ? ''
          : row.ratio >= row.goal
            ? `  goal ${row.goal}: met`
            : `  goal ${row.goal}: MISSED`;
      console.log(
        `  ${row.row.padEnd(34)} shoal ${show(row.shoal)} ${row.unit}, ${row.against ?? 'python'} ${show(row.peer)} ${row.unit}: ` +
          `ratio ${row.ratio.toFixed(2)} (${row.spread.map((r) => r.toFixed(2)).join(' to ')})${goal}`,
      );
    },
    (line) => {
      if (!json) console.log(`  ${line}`);
    },
    flags,
  );
}
process.exitCode = missed > 0 ? 1 : 0;
