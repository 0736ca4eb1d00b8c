/**
 * Bundles the sources when dist/bundle is missing or older. Within a checkout `import 'shoal'` is the package itself: tsx
 * finds the sources if it runs below the checkout; plain Node, and tsx elsewhere, need the files of the package.
 */
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { SetupError } from '../setup/errors.mjs';
import { cacheDir } from '../setup/locate.mjs';
import { withLock } from '../setup/lock-file.mjs';
import { run } from '../setup/processes.mjs';

export async function ensureSourceBundle(root, { env = process.env, signal, log = () => {} } = {}) {
  if (bundleIsCurrent(root)) return;
  const name = createHash('sha256').update(root).digest('hex').slice(0, 12);
  await withLock(join(cacheDir(env), `bundle-${name}.lock`), { what: 'bundle', signal, log }, async () => {
    if (bundleIsCurrent(root)) return;
    const script = join(root, 'scripts/dev/bundle.mjs');
    const { code, output } = await run(process.execPath, [script, '--source'], { cwd: root, env, signal });
    if (code !== 0)
      throw new SetupError(
        'SHOAL_CONFIG',
        'bundle-failed',
        `the sources cannot be bundled:\n${output.trim()}`,
        {
          hint: 'Programs of this checkout would run an earlier build. Correct the sources, then run this again.',
        },
      );
  });
}

/** Whether no source is newer than the bundle. */
export function bundleIsCurrent(root) {
  const bundled = statSync(join(root, 'dist/bundle/index.js'), { throwIfNoEntry: false })?.mtimeMs ?? 0;
  const source = join(root, 'src');
  if (!existsSync(source)) return true;
  const files = readdirSync(source, { recursive: true, encoding: 'utf8' });
  return files.every((file) => !isBundled(file) || statSync(join(source, file)).mtimeMs <= bundled);
}

const isBundled = (file) => /\.(tsx?|css|html)$/.test(file) && !file.endsWith('.test.ts');
