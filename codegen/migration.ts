/**
 * The table of docs/migration.md: for each public name of TensorFlow 1, its name in Shoal or the reason why there is none.
 * A name is found at the same place in camelCase, or in `curation/migration.json`, or among the ops in `tf.raw`. Names of
 * TensorFlow are listed by `tensorflow1-names.py`, whose output is `curation/tensorflow1-names.json`.
 */
import { readFileSync } from 'node:fs';
import * as shoal from '../src/index.js';
import * as formats from '../src/tensorflow/formats/index.js';
import type { GeneratedFolder } from './output.js';

interface Renamed {
  readonly to?: string;
  readonly note?: string;
  readonly missing?: string;
}

interface Curation {
  readonly renamed: Readonly<Record<string, Renamed>>;
  readonly missing: readonly { readonly names: readonly string[]; readonly reason: string }[];
}

export type Row =
  | { readonly name: string; readonly target: string; readonly note?: string }
  | { readonly name: string; readonly reason: string };

const MARKERS = ['<!-- names -->', '<!-- /names -->'] as const;
const PAGE = new URL('../docs/migration.md', import.meta.url);

const readJson = <T>(path: string): T =>
  JSON.parse(readFileSync(new URL(path, import.meta.url), 'utf8')) as T;

export const readNames = (): readonly string[] => readJson('./curation/tensorflow1-names.json');
export const readCuration = (): Curation => readJson('./curation/migration.json');

const { tf } = shoal;

/** Where a target may be: exports, and objects that programs hold. */
const ROOTS: Readonly<Record<string, unknown>> = {
  ...shoal,
  formats,
  dataset: tf.data.Dataset.prototype,
  graph: shoal.Graph.prototype,
  sparseTensor: tf.SparseTensor.prototype,
  variable: shoal.Variable.prototype,
};

/** Whether a name such as `tf.train.Saver` or `graph.getCollection` exists. */
export const exists = (path: string): boolean =>
  path.split('.').reduce<unknown>((value, key) => (value as Record<string, unknown>)?.[key], ROOTS) !==
  undefined;

/** `tf.train.latest_checkpoint` becomes `tf.train.latestCheckpoint`; names of classes stay. */
const camelCase = (name: string): string =>
  name
    .replace(/\b[A-Z]+(?:_[A-Z]+)+\b/g, (constant) => constant.toLowerCase())
    .replace(/_+([a-z0-9])/g, (_, first: string) => first.toUpperCase());

const rawNames = new Map(Object.keys(tf.raw).map((name) => [name.toLowerCase(), name]));

/** The op behind a function of a module whose functions are mostly ops: `tf.strings.lower` is the op StringLower. */
function opOf(name: string): string | undefined {
  const [, module, last] = /^tf\.(?:(\w+)\.)?([a-z]\w*)$/.exec(camelCase(name)) ?? [];
  if (last === undefined) return undefined;
  if (module === 'sparse') return rawNames.get(`sparse${last}`.toLowerCase());
  if (module === 'strings')
    return rawNames.get(`string${last}`.toLowerCase()) ?? rawNames.get(last.toLowerCase());
  const isOps = module === undefined || ['math', 'nn', 'image', 'io', 'debugging'].includes(module);
  return isOps ? rawNames.get(last.toLowerCase()) : undefined;
}

const matches = (pattern: string, name: string): boolean =>
  new RegExp(`^${pattern.replaceAll('.', '\\.').replaceAll('*', '.*')}$`).test(name);

export function resolveName(name: string, curation: Curation): Row {
  const { to, note, missing } = curation.renamed[name] ?? {};
  if (missing !== undefined) return { name, reason: missing };
  if (to !== undefined) return { name, target: to, note };
  const same = camelCase(name);
  if (!name.endsWith('.*') && exists(same)) return { name, target: same };
  const op = opOf(name);
  if (op !== undefined) return { name, target: `tf.raw.${op}`, note: 'the op' };
  const group = curation.missing.find(({ names }) => names.some((pattern) => matches(pattern, name)));
  if (group === undefined) throw new Error(`curation/migration.json has no entry for ${name}`);
  return { name, reason: group.reason };
}

export const migrationRows = (): Row[] => {
  const curation = readCuration();
  return readNames().map((name) => resolveName(name, curation));
};

const moduleOf = (name: string): string => {
  const parts = name.split('.');
  return parts.length === 2 || name.endsWith('.*') ? 'tf' : parts.slice(0, 2).join('.');
};

const line = (row: Row): string =>
  'target' in row
    ? `| \`${row.name}\` | ${shown(row.target)}${row.note ? `; ${row.note}` : ''} |`
    : `| \`${row.name}\` | – ${row.reason} |`;

const shown = (target: string): string => {
  const [root, ...rest] = target.split('.');
  return root === 'formats' ? `\`${rest.join('.')}\` of \`shoal/formats\`` : `\`${target}\``;
};

/** The page with its table replaced. */
export function generateMigration(): GeneratedFolder {
  const rows = migrationRows();
  const groups = new Map<string, Row[]>();
  for (const row of rows) {
    const module = moduleOf(row.name);
    groups.set(module, [...(groups.get(module) ?? []), row]);
  }
  const found = rows.filter((row) => 'target' in row).length;
  const sections = [...groups].map(
    ([module, members]) =>
      `### \`${module}\`\n\n| TensorFlow 1 | Shoal |\n|---|---|\n${members.map(line).join('\n')}\n`,
  );
  const table = `${found} of ${rows.length} names have a counterpart.\n\n${sections.join('\n')}`;
  const text = readFileSync(PAGE, 'utf8');
  const [from, to] = [text.indexOf(MARKERS[0]) + MARKERS[0].length, text.indexOf(MARKERS[1])];
  const page = `${text.slice(0, from)}\n${table}${text.slice(to)}`;
  return { folder: 'docs', files: new Map([['migration.md', page]]), isShared: true };
}
