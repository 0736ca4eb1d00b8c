#!/usr/bin/env node
'use strict';
// CommonJS on purpose: an ES module entry starts libuv's thread pool while it loads, and the size of the
// pool can only be set before. The record tells src/async/thread-pool.ts that it was set in time.
if (!process.env.UV_THREADPOOL_SIZE) {
  process.env.UV_THREADPOOL_SIZE = '64';
  process.env.SHOAL_THREAD_POOL = `${process.pid}:64`;
}

const { existsSync } = require('node:fs');
const { join } = require('node:path');
const { pathToFileURL } = require('node:url');

// A package has no sources, a checkout may have a stale build: sources go first.
const source = join(__dirname, '../src/cli/main.ts');
const load = existsSync(source)
  ? import('tsx/esm/api').then(({ register }) => {
      register();
      return import(pathToFileURL(source).href);
    })
  : import('../dist/cli/main.js');

load
  .then(({ main }) => main(process.argv.slice(2)))
  .catch((error) => {
    process.stderr.write(`${error?.stack ?? error}\n`);
    process.exitCode = 1;
  });
