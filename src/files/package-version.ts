/** The version of this package. */
import { readFileSync } from 'node:fs';

const PACKAGE_FILE = new URL('../../package.json', import.meta.url);

export const packageVersion = (): string =>
  (JSON.parse(readFileSync(PACKAGE_FILE, 'utf8')) as { readonly version: string }).version;
