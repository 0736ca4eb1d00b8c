/** Circles of imports. */
import type { Import, SourceFile } from './sources.js';

/** One circle for every group of files that import each other, as a path of files. */
export function findCycles(
  files: readonly SourceFile[],
  kinds: readonly Import['kind'][] = ['value', 'type'],
): string[][] {
  const needs = new Map(
    files.map(({ path, imports }) => [
      path,
      imports.flatMap(({ file, kind }) => (file !== undefined && kinds.includes(kind) ? [file] : [])),
    ]),
  );
  const cycles: string[][] = [];
  const state = new Map<string, 'open' | 'done'>();
  const walk = (path: string, trail: readonly string[]): void => {
    if (state.get(path) === 'done') return;
    if (state.get(path) === 'open') {
      cycles.push([...trail.slice(trail.indexOf(path)), path]);
      return;
    }
    state.set(path, 'open');
    for (const next of needs.get(path) ?? []) walk(next, [...trail, path]);
    state.set(path, 'done');
  };
  for (const path of needs.keys()) walk(path, []);
  return cycles;
}
