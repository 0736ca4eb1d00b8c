/** The files of this package. */
import { existsSync, readFileSync } from 'node:fs';

/** The sources are at several depths below it, the bundle at another. */
export const PACKAGE_ROOT = nearestPackage(new URL('.', import.meta.url));

/** Only a checkout has sources. */
export const isCheckout = existsSync(new URL('src/', PACKAGE_ROOT));

/** A checkout may run its bundle too. */
export const runsSources = import.meta.url.endsWith('.ts');

/** The fields of package.json that Shoal itself reads. */
interface PackageFields {
  readonly name: string;
  readonly version: string;
  readonly exports: Readonly<Record<string, string | { readonly types: string; readonly default: string }>>;
}

export const packageFields = (): PackageFields =>
  JSON.parse(readFileSync(new URL('package.json', PACKAGE_ROOT), 'utf8')) as PackageFields;

export const packageVersion = (): string => packageFields().version;

/** The nearest directory above that has a package.json. */
function nearestPackage(directory: URL): URL {
  const above = new URL('..', directory);
  const isFound = existsSync(new URL('package.json', directory)) || above.href === directory.href;
  return isFound ? directory : nearestPackage(above);
}
