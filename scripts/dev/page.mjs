// Builds the page into dist/page: one script, one style sheet and the document, without external resources.
//
//   node scripts/dev/page.mjs [DIST]
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { licenses } from './licenses.mjs';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** Writes `page.js`, `page.css`, `index.html` and the licences of what is in them. */
export async function buildPage(dist = join(ROOT, 'dist')) {
  const source = join(ROOT, 'src/app/page/client');
  const target = join(dist, 'page');
  mkdirSync(target, { recursive: true });
  const { metafile, outputFiles } = await build({
    write: false,
    entryPoints: [{ out: 'page', in: join(source, 'page.tsx') }],
    outdir: target,
    bundle: true,
    minify: true,
    format: 'esm',
    platform: 'browser',
    target: 'es2022',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    legalComments: 'none',
    metafile: true,
    logLevel: 'warning',
    absWorkingDir: ROOT,
    nodePaths: [join(ROOT, 'node_modules')],
  });
  // A task may read a file while another process builds it again.
  const publish = (name, contents) => {
    const draft = join(target, `.${name}.${process.pid}`);
    writeFileSync(draft, contents);
    renameSync(draft, join(target, name));
  };
  for (const { path, contents } of outputFiles) publish(basename(path), contents);
  publish('index.html', readFileSync(join(source, 'index.html')));
  publish('LICENSES.txt', licenses(Object.keys(metafile.inputs)));
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  await buildPage(process.argv[2] && resolve(process.argv[2]));
