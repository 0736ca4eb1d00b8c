/**
 * Loads TensorFlow's two libraries once, at first use.
 *
 * The libraries are pinned, because unloading them at exit crashes. oneDNN is turned on (onednn.ts), so that the set of
 * kernels does not depend on the CPU model. File descriptor 2 is redirected while static initialisers run, because
 * they write to the terminal at any log level; `SHOAL_TF_LOG` (0 to 3, or `debug`) keeps these and later lines. Every
 * declared symbol is resolved before the first call, so that a library that is too old is rejected with the missing
 * names.
 */

import { messageOf, ShoalError } from '../../../base/errors/errors.js';
import { type CApi, type CName, DECLARATIONS, type Pointer } from './c-api.js';
import { useCrc32cLibrary } from './crc32c-library.js';
import koffi, { koffiModule, type LibraryHandle } from './ffi.js';
import { type LocatedLibrary, locateTensorFlow } from './locate.js';
import { applyOneDnnSetting, askOneDnn } from './onednn.js';
import { keepHeapSlack } from './pressure.js';
import { releaseLoadedPages } from './resident-pages.js';

const RTLD_LAZY = 1;
const RTLD_NODELETE = process.platform === 'darwin' ? 0x80 : 0x1000;
const O_WRONLY = 1;

/** C functions that are not TensorFlow's. */
export interface CRuntime {
  /** Advises the kernel about complete pages; `.async` runs on a thread of the pool. */
  readonly madvise: ((start: bigint, length: number, advice: number) => number) & {
    readonly async: (
      start: bigint,
      length: number,
      advice: number,
      done: (error: Error | null, result: number) => void,
    ) => void;
  };
  readonly mmap: (
    address: number,
    length: number,
    protection: number,
    flags: number,
    descriptor: number,
    offset: number,
  ) => number | bigint;
  readonly munmap: (start: bigint, length: number) => number;
  /** Writes one byte for each page; its lowest bit is set if the page is in memory. */
  readonly mincore: (start: bigint, length: number, pages: Uint8Array) => number;
  readonly getpagesize: () => number;
  readonly memcpy: (
    to: Pointer | NodeJS.TypedArray,
    from: Pointer | NodeJS.TypedArray,
    bytes: number,
  ) => void;
}

export interface Library {
  readonly C: CApi;
  readonly libc: CRuntime;
  readonly cc: LibraryHandle;
  readonly framework: LibraryHandle;
  readonly located: LocatedLibrary;
  /** Of koffi, for other threads. */
  readonly ffiModule: string;
  /** Whether TensorFlow uses oneDNN; undefined if the library does not report it. */
  readonly oneDnn: boolean | undefined;
}

let loaded: Library | undefined;
let preloading: Promise<void> | undefined;

/** The library, loaded at the first call. */
export function library(): Library {
  loaded ??= load(locateTensorFlow());
  return loaded;
}

/** TensorFlow's C API. */
export function C(): CApi {
  return (loaded ?? library()).C;
}

export function isLibraryLoaded(): boolean {
  return loaded !== undefined;
}

/**
 * Loads the library on a thread of the pool, without blocking the event loop. Optional: the first use loads it
 * synchronously. Anything the process writes to file descriptor 2 while the library loads is lost, unless
 * SHOAL_TF_LOG is set.
 */
export async function preloadLibrary(): Promise<void> {
  if (loaded) return;
  preloading ??= preload();
  try {
    await preloading;
  } finally {
    preloading = undefined;
  }
}

async function preload(): Promise<void> {
  const located = locateTensorFlow();
  setLogLevel();
  applyOneDnnSetting();
  const dlopen = koffi.load(null).func('dlopen', 'void *', ['str', 'int']);
  const restore = silenceStderr();
  try {
    await new Promise<void>((resolve, reject) => {
      dlopen.async(located.ccPath, RTLD_LAZY | RTLD_NODELETE, (error: Error | null) =>
        error ? reject(error) : resolve(),
      );
    });
  } finally {
    restore();
  }
  loaded ??= load(located);
}

function load(located: LocatedLibrary): Library {
  setLogLevel();
  applyOneDnnSetting();
  const restore = silenceStderr();
  try {
    const framework = koffi.load(located.frameworkPath, { lazy: true });
    const cc = koffi.load(located.ccPath, { lazy: true });
    pin(located);
    const api = bindApi(located.dir, [cc, framework]);
    const memcpy = cc.func('memcpy', 'void *', ['void *', 'void *', 'size_t']);
    const madvise = cc.func('madvise', 'int', ['uintptr_t', 'size_t', 'int']);
    const mmap = cc.func('mmap', 'uintptr_t', ['uintptr_t', 'size_t', 'int', 'int', 'int', 'int64_t']);
    const munmap = cc.func('munmap', 'int', ['uintptr_t', 'size_t']);
    const mincore = cc.func('mincore', 'int', ['uintptr_t', 'size_t', 'void *']);
    const getpagesize = cc.func('getpagesize', 'int', []);
    const libc = { memcpy, madvise, mmap, munmap, mincore, getpagesize };
    const oneDnn = askOneDnn(framework);
    keepHeapSlack();
    useCrc32cLibrary();
    for (const path of [located.frameworkPath, located.ccPath])
      releaseLoadedPages(path, libc.getpagesize(), libc.madvise);
    return { C: api, libc, cc, framework, located, ffiModule: koffiModule(), oneDnn };
  } catch (error) {
    if (error instanceof ShoalError) throw error;
    throw new ShoalError(
      'SHOAL_LIBRARY',
      `TensorFlow could not be loaded from ${located.dir}: ${messageOf(error)}`,
      {
        cause: error,
        hint: 'Run `npx shoal doctor` to check this machine.',
      },
    );
  } finally {
    restore();
  }
}

/** The functions of the C API, each from the first library that has it. */
function bindApi(dir: string, libraries: readonly LibraryHandle[]): CApi {
  const types = cTypes();
  const missing: string[] = [];
  const bind = ([name, [result, args]]: [string, (typeof DECLARATIONS)[CName]]) => {
    for (const lib of libraries) {
      try {
        return [
          name,
          lib.func(
            name,
            types[result],
            args.map((kind) => types[kind]),
          ),
        ];
      } catch {
        // Not in this library; reported below if it is in neither.
      }
    }
    missing.push(name);
    return [name, undefined];
  };
  const declarations = Object.entries(DECLARATIONS) as [CName, (typeof DECLARATIONS)[CName]][];
  const api = Object.fromEntries(declarations.map(bind)) as CApi;
  if (missing.length === 0) return api;
  throw new ShoalError(
    'SHOAL_LIBRARY',
    `The TensorFlow library in ${dir} is missing ${missing.length} symbols: ${missing.join(', ')}`,
    {
      hint: 'It is too old or not a full build. Run `npx shoal setup`, or set SHOAL_TF_DIR to another directory.',
    },
  );
}

function cTypes() {
  const out = koffi.struct({ oper: 'void *', index: 'int' });
  return {
    void: 'void',
    ptr: 'void *',
    int: 'int',
    i64: 'int64_t',
    size: 'size_t',
    f32: 'float',
    u8: 'uint8_t',
    str: 'str',
    out,
  } as const;
}

/** Keeps the libraries mapped until the process exits. */
function pin(located: LocatedLibrary): void {
  const dlopen = koffi.load(null).func('dlopen', 'void *', ['str', 'int']);
  for (const path of [located.frameworkPath, located.ccPath]) dlopen(path, RTLD_LAZY | RTLD_NODELETE);
}

function logLevelAsked(): string | undefined {
  const asked = process.env.SHOAL_TF_LOG;
  return asked === undefined || asked === '' ? undefined : asked;
}

function setLogLevel(): void {
  const asked = logLevelAsked();
  if (asked === undefined) {
    process.env.TF_CPP_MIN_LOG_LEVEL ??= '3';
  } else if (asked === 'debug') {
    process.env.TF_CPP_MIN_LOG_LEVEL = '0';
    process.env.TF_CPP_MAX_VLOG_LEVEL ??= '1';
  } else {
    process.env.TF_CPP_MIN_LOG_LEVEL = asked;
  }
}

/** Redirects file descriptor 2 to /dev/null; the returned function restores it. */
function silenceStderr(): () => void {
  if (logLevelAsked() !== undefined) return () => {};
  const self = koffi.load(null);
  const dup = self.func('dup', 'int', ['int']);
  const dup2 = self.func('dup2', 'int', ['int', 'int']);
  const open = self.func('open', 'int', ['str', 'int']);
  const close = self.func('close', 'int', ['int']);
  const saved = dup(2);
  const sink = open('/dev/null', O_WRONLY);
  if (saved < 0 || sink < 0) return () => {};
  dup2(sink, 2);
  close(sink);
  return () => {
    dup2(saved, 2);
    close(saved);
  };
}
