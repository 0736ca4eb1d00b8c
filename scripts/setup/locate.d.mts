/** Types of locate.mjs, for the TypeScript that imports it. */

export interface PinnedFile {
  readonly file: string;
  readonly size: number;
  readonly sha256: string;
}

export interface PlatformPin {
  readonly package: string;
  readonly pip: { readonly platform: string; readonly python: string; readonly abi: string };
  readonly wheel: PinnedFile;
  readonly libraries: { readonly cc: PinnedFile; readonly framework: PinnedFile };
  /** A small library that computes checksums; not every platform has one. */
  readonly crc32c?: {
    readonly package: string;
    readonly version: string;
    readonly pip: PlatformPin['pip'];
    readonly wheel: PinnedFile;
    readonly library: PinnedFile & { readonly entry: string };
  };
}

export interface Pin extends PlatformPin {
  readonly platform: string;
  readonly version: string;
}

export interface TensorFlowLock {
  readonly version: string;
  readonly platforms: Readonly<Record<string, PlatformPin>>;
}

export type LibrarySource = 'SHOAL_TF_DIR' | 'cache' | 'python';

export interface LibraryPlace {
  readonly dir: string;
  readonly ccPath: string;
  readonly frameworkPath: string;
  readonly source: LibrarySource;
  readonly version: string | undefined;
}

export interface SearchedPlace {
  readonly place: string;
  readonly found: boolean;
  /** Why it is not used; empty if it is used. */
  readonly why: string;
}

export interface SearchResult {
  readonly found: LibraryPlace | undefined;
  readonly searched: readonly SearchedPlace[];
  readonly pin: Pin | undefined;
}

export interface SearchOptions {
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly lock?: TensorFlowLock;
  readonly platform?: string;
}

export function search(options?: SearchOptions): SearchResult;
export function platformKey(): string;
export function readLock(file?: string): TensorFlowLock;
export function pinFor(lock: TensorFlowLock, platform: string): Pin;
export function cacheDir(env?: Readonly<Record<string, string | undefined>>): string;
export function installDir(pin: Pin, env?: Readonly<Record<string, string | undefined>>): string;
export function crc32cLibrary(options?: SearchOptions): string | undefined;
export function pythonRecordFile(pin: Pin, env?: Readonly<Record<string, string | undefined>>): string;
