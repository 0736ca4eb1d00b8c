/** Copies of this checkout that speak other versions: other releases, for tests of several releases in one cluster. */
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Protocol } from '../../src/base/bytes/versions.js';

const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const COPIED = [
  'src',
  'test/cluster/programs',
  'scripts/runtime',
  'scripts/setup',
  'package.json',
  'tensorflow.lock.json',
  'tsconfig.json',
];

export interface OtherRelease {
  readonly release: string;
  /** `[oldest, newest]`; default: those of this checkout. */
  readonly versions: Partial<Readonly<Record<Protocol, readonly [number, number]>>>;
}

/** Makes the directory, which must not exist, a checkout of that release. */
export function makeRelease(directory: string, { release, versions }: OtherRelease): string {
  for (const path of COPIED) cpSync(join(ROOT, path), join(directory, path), { recursive: true });
  mkdirSync(directory, { recursive: true });
  symlinkSync(join(ROOT, 'node_modules'), join(directory, 'node_modules'));
  edit(join(directory, 'package.json'), /"version": "[^"]*"/, `"version": "${release}"`);
  for (const [protocol, [oldest, newest]] of Object.entries(versions)) {
    const range = `${protocol}: { oldest: ${oldest}, newest: ${newest} }`;
    edit(
      join(directory, 'src/base/bytes/versions.ts'),
      new RegExp(`\\b${protocol}: \\{ oldest: \\d+, newest: \\d+ \\}`),
      range,
    );
  }
  return directory;
}

function edit(file: string, pattern: RegExp, to: string): void {
  const text = readFileSync(file, 'utf8');
  if (!pattern.test(text)) throw new Error(`${file} has no ${pattern}`);
  writeFileSync(file, text.replace(pattern, to));
}
