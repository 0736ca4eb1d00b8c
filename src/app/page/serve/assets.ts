/** The files of the page, which scripts/dev/page.mjs has built. */
import { readFileSync } from 'node:fs';
import { PACKAGE_ROOT } from '../../../base/files/package.js';

export interface PageAsset {
  readonly type: string;
  readonly body: Buffer;
}

const TYPES: Readonly<Record<string, string>> = {
  'index.html': 'text/html; charset=utf-8',
  'page.js': 'text/javascript; charset=utf-8',
  'page.css': 'text/css; charset=utf-8',
};

const loaded = new Map<string, PageAsset>();

/** Undefined if there is no file of that name, or the page was not built. */
export function pageAsset(name: string): PageAsset | undefined {
  const type = Object.hasOwn(TYPES, name) ? TYPES[name] : undefined;
  if (type === undefined) return undefined;
  const known = loaded.get(name);
  if (known) return known;
  try {
    const made = { type, body: readFileSync(new URL(`dist/page/${name}`, PACKAGE_ROOT)) };
    loaded.set(name, made);
    return made;
  } catch {
    return undefined;
  }
}
