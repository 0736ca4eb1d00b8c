/**
 * Compares the declarations in src/tensorflow/native/library/c-api.ts with the C headers of the library: whether each function exists, how
 * many arguments it takes, and whether every kind matches the C type.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Declaration } from '../src/tensorflow/native/library/c-api.js';

export interface Prototype {
  readonly result: string;
  readonly args: readonly string[];
}

/** The text of all C headers below the library's folder, without comments and preprocessor lines. */
export function readHeaders(libraryDir: string): string {
  const folder = join(libraryDir, 'include');
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.h'))
    .sort()
    .map((file) => stripComments(readFileSync(join(folder, file), 'utf8')))
    .join('\n');
}

function stripComments(text: string): string {
  return text
    .replace(/\/\*[\s\S]*?\*\//g, ' ')
    .replace(/\/\/.*$/gm, ' ')
    .replace(/^[ \t]*#(?:.*\\\n)*.*$/gm, ' ');
}

/** Every exported function of the C API by name. */
export function readPrototypes(headers: string): Map<string, Prototype> {
  const found = new Map<string, Prototype>();
  const prototype = /\bTF_CAPI_EXPORT\s+(?:extern\s+)?([\w\s*]+?)\b(TF_\w+)\s*\(([^()]*)\)\s*;/g;
  for (const [, result, name, args] of headers.matchAll(prototype)) {
    const list = (args as string).split(',').map((arg) => typeOf(arg));
    const isEmpty = list.length === 1 && (list[0] === 'void' || list[0] === '');
    found.set(name as string, { result: typeOf(result as string), args: isEmpty ? [] : list });
  }
  return found;
}

const TYPE_KEYWORDS = new Set([
  'void',
  'char',
  'int',
  'float',
  'double',
  'bool',
  'unsigned',
  'long',
  'short',
]);

/** The type of a parameter, without `const`, `struct` and its name; an array becomes a pointer, as in C. */
export function typeOf(declaration: string): string {
  const isArray = /\[\s*\d*\s*\]/.test(declaration);
  const tokens = declaration
    .replace(/\[\s*\d*\s*\]/g, ' ')
    .replaceAll('*', ' * ')
    .split(/\s+/)
    .filter((token) => token !== '' && token !== 'const' && token !== 'struct' && token !== 'enum');
  const stars = tokens.filter((token) => token === '*').length + (isArray ? 1 : 0);
  const words = tokens.filter((token) => token !== '*');
  // A name may follow the type.
  const length = Math.max(1, words.findLastIndex((word) => TYPE_KEYWORDS.has(word)) + 1);
  return words.slice(0, length).join(' ') + '*'.repeat(stars);
}

/** The values of an enum of the headers, by name. */
export function readEnum(headers: string, name: string): Map<string, number> {
  const body = new RegExp(`typedef\\s+enum\\s+${name}\\s*\\{([^}]*)\\}`).exec(headers)?.[1] ?? '';
  return new Map(
    [...body.matchAll(/(\w+)\s*=\s*(\d+)/g)].map(([, word, value]) => [word as string, Number(value)]),
  );
}

/** The kinds that match a C type; the first one is preferred. */
function kindsFor(type: string, isResult: boolean): readonly string[] {
  if (type === 'char*') return isResult ? ['str'] : ['str', 'ptr'];
  if (type.endsWith('*')) return ['ptr'];
  switch (type) {
    case 'void':
      return isResult ? ['void'] : [];
    case 'int':
    case 'int32_t':
    case 'TF_DataType':
    case 'TF_Code':
    case 'TF_AttrType':
      return ['int'];
    case 'size_t':
      return ['size'];
    case 'int64_t':
      return ['i64'];
    case 'float':
      return ['f32'];
    case 'unsigned char':
    case 'uint8_t':
      return ['u8'];
    case 'TF_Output':
      return ['out'];
    default:
      return [];
  }
}

/** One line for each difference. */
export function checkDeclarations(
  declarations: Readonly<Record<string, Declaration>>,
  prototypes: ReadonlyMap<string, Prototype>,
): string[] {
  return Object.entries(declarations).flatMap(([name, [result, args]]) => {
    const prototype = prototypes.get(name);
    if (!prototype) return [`${name} is not in the headers`];
    const problems: string[] = [];
    const compare = (what: string, kind: string, type: string, isResult: boolean) => {
      const kinds = kindsFor(type, isResult);
      if (kinds.includes(kind)) return;
      const wanted = kinds.length > 0 ? `'${kinds[0]}'` : 'unknown to this check';
      problems.push(`${name}: ${what} is declared '${kind}', in C it is ${type}, which is ${wanted}`);
    };
    compare('the result', result, prototype.result, true);
    if (args.length !== prototype.args.length) {
      problems.push(
        `${name} is declared with ${args.length} arguments, in C it has ${prototype.args.length}`,
      );
    } else {
      for (const [i, kind] of args.entries())
        compare(`argument ${i + 1}`, kind, prototype.args[i] as string, false);
    }
    return problems;
  });
}
