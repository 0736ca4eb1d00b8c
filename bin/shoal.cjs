#!/usr/bin/env node
'use strict';
// CommonJS on purpose: an ES module entry starts libuv's thread pool while it loads, and the size of the
// pool can only be set before. The record tells src/base/async/thread-pool.ts that it was set in time.
if (!process.env.UV_THREADPOOL_SIZE) {
  process.env.UV_THREADPOOL_SIZE = '64';
  process.env.SHOAL_THREAD_POOL = `${process.pid}:64`;
}

const { existsSync } = require('node:fs');
const { join } = require('node:path');
const { pathToFileURL } = require('node:url');

const root = join(__dirname, '..');

// The bundle loads several times faster than the sources; that of a checkout may be older than they are.
async function load() {
  if (await isBundleCurrent()) return await import('../dist/bundle/cli.js');
  const { register } = await import('tsx/esm/api');
  register();
  return await import(pathToFileURL(join(root, 'src/app/cli/main.ts')).href);
}

async function isBundleCurrent() {
  if (!existsSync(join(root, 'src'))) return true;
  const { bundleIsCurrent } = await import('../scripts/dev/source-bundle.mjs');
  return bundleIsCurrent(root);
}

load()
  .then(({ main }) => main(process.argv.slice(2)))
  .catch((error) => {
    const bare = error?.code === 'ERR_MODULE_NOT_FOUND' && !existsSync(join(__dirname, '../node_modules'));
    const hint = '\n  hint: This checkout has no packages. Run `node scripts/bootstrap.mjs setup` first.';
    process.stderr.write(bare ? `${error.message}${hint}\n` : `${error?.stack ?? error}\n`);
    process.exitCode = 1;
  });
