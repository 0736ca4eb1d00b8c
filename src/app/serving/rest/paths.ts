/** The paths of the REST API: which model, which version, what to do. */
import type { ModelSpec } from '../requests.js';
import { invalidRequest } from '../status.js';

export type Action = 'predict' | 'classify' | 'regress' | 'metadata' | 'status';

export interface Target {
  readonly action: Action;
  readonly spec: ModelSpec;
}

const VERSION = '(?:/versions/(\\d+)|/labels/([^/:]+))?';
const INFERENCE = new RegExp(`^/v1/models/([^/:]+)${VERSION}:(classify|regress|predict)$`, 'i');
const ABOUT = new RegExp(`^/v1/models(?:/([^/:]+))?${VERSION}(?:/(metadata))?$`, 'i');

/** `path` is without the query, and not decoded. */
export function targetOf(method: string, path: string): Target {
  const match = method === 'POST' ? INFERENCE.exec(path) : method === 'GET' ? ABOUT.exec(path) : null;
  if (!match) throw invalidRequest(`Malformed request: ${method} ${path}`);
  const [, name = '', version, label, last] = match;
  if (name === '') throw invalidRequest('Missing model name in request.');
  if (version !== undefined && BigInt(version) >= 1n << 63n)
    throw invalidRequest(`Failed to convert version: ${version} to numeric.`);
  const spec: ModelSpec = {
    name: decoded(name, 'model name'),
    ...(version === undefined ? {} : { version: BigInt(version) }),
    ...(label === undefined ? {} : { label: decoded(label, 'model version label') }),
  };
  const action = (last?.toLowerCase() ?? 'status') as Action;
  return { action, spec };
}

function decoded(text: string, what: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw invalidRequest(`Failed to decode ${what}:${text}`);
  }
}
