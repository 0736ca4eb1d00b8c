/** The files of this package. */
import { readFileSync } from 'node:fs';

/** Modules are two levels below it here and in the bundle. */
export const PACKAGE_ROOT = new URL('../../', import.meta.url);

/** A checkout runs its sources, an installed package its build. */
export const isCheckout = import.meta.url.endsWith('.ts');

/** The fields of package.json that Shoal itself reads. */
interface PackageFields {
  readonly name: string;
  readonly version: string;
  readonly exports: Readonly<Record<string, string | { readonly types: string; readonly default: string }>>;
}

export const packageFields = (): PackageFields =>
  JSON.parse(readFileSync(new URL('package.json', PACKAGE_ROOT), 'utf8')) as PackageFields;

export const packageVersion = (): string => packageFields().version;
