/**
 * Loads a user's job file, TypeScript or JavaScript. `import … from 'shoal'` in it resolves to the running Shoal,
 * wherever the file is and whatever is installed there: two copies would not share graphs.
 */
import { existsSync, statSync } from 'node:fs';
import { register } from 'node:module';
import { extname, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { isShoalError, messageOf } from '../../../base/errors/errors.js';
import { PACKAGE_ROOT, packageFields, runsSources } from '../../../base/files/package.js';
import { isJob, type JobDefinition } from '../../job/definition/define-job.js';
import { UsageError } from '../failure.js';

const STACK_FRAMES = 50;
const SOURCE_FILE = /\.[cm]?[jt]sx?$/;

/**
 * Runs on Node's loader thread. Loads .ts files as ES modules: without `"type": "module"` in package.json Node would
 * load them as CommonJS, which cannot import ES modules.
 */
const HOOKS = `
let known;
export const initialize = (data) => { known = data; };
export const resolve = async (specifier, context, next) => {
  const found = await next(known[specifier] ?? specifier, context);
  const isForeign = found.url.includes('/node_modules/');
  if (found.format !== 'commonjs' || isForeign || !/\\.tsx?(\\?|$)/.test(found.url)) return found;
  return { ...found, format: 'module' };
};`;

function ownEntries(): Readonly<Record<string, string>> {
  const { name, exports } = packageFields();
  return Object.fromEntries(
    Object.entries(exports).map(([path, target]) => {
      const file =
        typeof target === 'string' ? target : runsSources ? sourceOf(target.types) : target.default;
      return [`${name}${path.slice(1)}`, new URL(file, PACKAGE_ROOT).href];
    }),
  );
}

/** The source of an entry point, by the place of its types. */
const sourceOf = (types: string): string => types.replace(/^\.\/dist\/(.*)\.d\.ts$/, './src/$1.ts');

/** Loads the job in `file`, which finds `args` in process.argv. */
export async function loadJob(file: string, args: readonly string[]): Promise<JobDefinition> {
  const path = resolve(file);
  if (!existsSync(path) || !statSync(path).isFile()) {
    throw new UsageError('SHOAL_NOT_FOUND', `there is no job file ${path}`, {
      hint: 'pass a file whose default export is created by defineJob',
    });
  }
  if (!SOURCE_FILE.test(path)) {
    throw new UsageError('SHOAL_INVALID_ARGUMENT', `${path} is not a TypeScript or JavaScript file`, {
      hint: 'pass a .ts, .mts, .js or .mjs file whose default export is created by defineJob',
    });
  }
  process.argv = [process.argv[0]!, path, ...args];
  // The frames of Shoal must not displace those of the user's file: errors show its line.
  Error.stackTraceLimit = Math.max(Error.stackTraceLimit, STACK_FRAMES);
  const entries = ownEntries();
  // What is loaded before the hooks below does not pass through the loader's thread.
  await import(entries.shoal as string);
  if (!runsSources && ['.ts', '.mts', '.tsx'].includes(extname(path))) {
    const { register: registerTypeScript } = await import('tsx/esm/api');
    registerTypeScript();
  }
  register(`data:text/javascript,${encodeURIComponent(HOOKS)}`, { data: entries });
  const module = await importUser(path);
  if (!('default' in module)) {
    const names = Object.keys(module).join(', ');
    throw notAJob(path, `has no default export${names && ` (it exports ${names})`}`);
  }
  const { default: job } = module;
  if (!isJob(job)) throw notAJob(path, `has a default export that is not a job: it is ${kindOf(job)}`);
  return job;
}

async function importUser(path: string): Promise<Readonly<Record<string, unknown>>> {
  try {
    return (await import(pathToFileURL(path).href)) as Readonly<Record<string, unknown>>;
  } catch (error) {
    if (error instanceof Error && /^(TransformError|SyntaxError)$/.test(error.name)) {
      const text = messageOf(error).replace(/^Transform failed with .*:\n/, '');
      throw new UsageError('SHOAL_INVALID_ARGUMENT', `${path} cannot be compiled:\n${text}`, {
        cause: error,
      });
    }
    // A wrong option of `defineJob` fails again at every start.
    if (isShoalError(error, 'SHOAL_INVALID_ARGUMENT')) {
      const { code, message, hint, stack } = error;
      throw Object.assign(new UsageError(code, message, { cause: error, hint }), { stack });
    }
    throw error;
  }
}

function notAJob(path: string, why: string): UsageError {
  return new UsageError('SHOAL_INVALID_ARGUMENT', `${path} ${why}`, {
    hint: 'write: export default defineJob({ name, input, model, train })',
  });
}

function kindOf(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  if (typeof value === 'function') return 'a function';
  return Array.isArray(value) ? 'a list' : `a plain ${typeof value}`;
}
