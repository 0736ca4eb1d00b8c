// Puts the compiled package into a few files, dist/bundle. Node spends about a millisecond on each file that it loads, and
// the package with its dependencies has a thousand: see docs/design/026-bundled-package.md.
//
//   node scripts/dev/bundle.mjs [DIST]
//   node scripts/dev/bundle.mjs --source
//
// DIST has the output of the compiler; default: dist. With --source the bundle is made of the sources, without types, for
// programs that run in a checkout. All files of the bundle are in one directory, two levels below the package, because
// modules find the files of the package by their own place.
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { licenses } from './licenses.mjs';
import { buildPage } from './page.mjs';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const isSource = process.argv[2] === '--source';
const dist = resolve((isSource ? undefined : process.argv[2]) ?? join(ROOT, 'dist'));
const target = join(dist, 'bundle');

const { exports, engines } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));

/** The entry points of the package by the names of their files in the bundle. Their types are not bundled. */
const entries = Object.values(exports).flatMap((entry) =>
  entry.types === undefined
    ? []
    : [{ out: entry.default.match(/^\.\/dist\/bundle\/(.*)\.js$/)[1], in: moduleOf(entry.types) }],
);

function moduleOf(types) {
  const module = relative('dist', types).replace(/\.d\.ts$/, '');
  return isSource ? join(ROOT, 'src', `${module}.ts`) : join(dist, `${module}.js`);
}

// A program of the checkout may run: it loads some files late.
if (!isSource) rmSync(target, { recursive: true, force: true });
const { metafile } = await build({
  entryPoints: [...entries, { out: 'cli', in: moduleOf('dist/app/cli/main.d.ts') }],
  outdir: target,
  bundle: true,
  splitting: true,
  format: 'esm',
  platform: 'node',
  target: `node${/\d+/.exec(engines.node)[0]}`,
  // They have native code or hooks of their own, or are rarely used.
  external: ['koffi', '@node-rs/crc32', 'tsx', '@peculiar/x509', 'reflect-metadata'],
  // `sideEffects` of the package lists the output of the compiler.
  ignoreAnnotations: isSource,
  metafile: true,
  logLevel: 'warning',
  absWorkingDir: ROOT,
  // The output of the compiler may be outside of the checkout.
  nodePaths: [join(ROOT, 'node_modules')],
});
writeFileSync(join(target, 'LICENSES.txt'), licenses(Object.keys(metafile.inputs)));
await buildPage(dist);
