/**
 * Bundles programs that run as processes. A process that loads a bundle starts in a fraction of the time that the sources
 * need: Node spends a millisecond on each file that it loads, and the loader of TypeScript another.
 */
import { build } from 'esbuild';

/** Node reads these itself: they have native code or hooks of their own, or are rarely used. */
const EXTERNAL = ['koffi', '@node-rs/crc32', 'tsx', '@peculiar/x509', 'reflect-metadata', 'esbuild'];
/** Packages that are not ES modules call `require`. */
const BANNER =
  "import { createRequire as requireOf } from 'node:module'; const require = requireOf(import.meta.url);";

/** Bundles the sources `entryPoints` of the checkout `root` into `outdir`, which must be below it. */
export async function bundlePrograms(root, entryPoints, outdir) {
  await build({
    entryPoints,
    outdir,
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    external: EXTERNAL,
    banner: { js: BANNER },
    // The sources are not those files that package.json names as having side effects.
    ignoreAnnotations: true,
    logLevel: 'warning',
    absWorkingDir: root,
  });
}
