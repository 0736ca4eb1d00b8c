/** Which models are served, from where, in which versions. */
import { isAbsolute } from 'node:path';
import { invalidRequest } from '../status.js';

export type VersionPolicy =
  | { readonly kind: 'latest'; readonly count: number }
  | { readonly kind: 'all' }
  | { readonly kind: 'specific'; readonly versions: readonly number[] };

export interface ModelConfig {
  readonly name: string;
  /** An absolute path; its subdirectories that are numbers are the versions. */
  readonly basePath: string;
  /** Default: the latest version. */
  readonly policy?: VersionPolicy;
  /** Version numbers by label; default: none. */
  readonly labels?: Readonly<Record<string, number>>;
  /** The platform; only TensorFlow is supported. Default: tensorflow. */
  readonly platform?: string;
  /** The directory of the only version, which is then not searched for in `basePath`. Default: none. */
  readonly fixed?: { readonly version: number; readonly directory: string };
}

export const LATEST: VersionPolicy = { kind: 'latest', count: 1 };
const PLATFORM = 'tensorflow';

/** Rejects what TensorFlow Serving rejects, in its words. */
export function checkModels(models: readonly ModelConfig[]): void {
  const names = new Set<string>();
  for (const { name, basePath, platform = PLATFORM } of models) {
    if (name === '') throw invalidRequest('A model in the config list has no name');
    if (names.has(name)) throw invalidRequest(`Illegal to list model ${name} multiple times in config list`);
    names.add(name);
    if (!isAbsolute(basePath))
      throw invalidRequest(
        `Expected model ${name} to have an absolute path or URI; got base_path()=${basePath}`,
      );
    if (platform !== PLATFORM)
      throw invalidRequest(`Model ${name} requests unsupported platform ${platform}`);
  }
}

/** The versions of `found` that the policy selects, highest first. */
export function selectVersions(policy: VersionPolicy, found: readonly number[]): readonly number[] {
  const sorted = [...found].sort((a, b) => b - a);
  switch (policy.kind) {
    case 'all':
      return sorted;
    case 'latest':
      return sorted.slice(0, policy.count);
    case 'specific':
      return sorted.filter((version) => policy.versions.includes(version));
  }
}
