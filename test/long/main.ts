/** `npm run long -- NAME [arguments]`: tests that take too long for `npm test`. */

interface LongTest {
  main(args: readonly string[]): Promise<number>;
}

const TESTS: Readonly<Record<string, () => Promise<LongTest>>> = {
  'million-runs': () => import('./million-runs.js'),
};

const [name = '', ...args] = process.argv.slice(2);
const load = TESTS[name];
if (load) {
  const { main } = await load();
  process.exitCode = await main(args);
} else {
  console.error(`unknown long test '${name}'; available: ${Object.keys(TESTS).join(', ')}`);
  process.exitCode = 2;
}
