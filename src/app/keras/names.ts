/** Names as Keras spells them: `sparse_categorical_crossentropy`, `sparseCategoricalCrossentropy` and `SparseCategoricalCrossentropy`. */
import { invalid } from '../../base/errors/errors.js';
import { closestName } from '../../base/errors/option-names.js';

type Snake<S extends string> = S extends `${infer First}${infer Rest}`
  ? `${First extends Lowercase<First> ? First : `_${Lowercase<First>}`}${Snake<Rest>}`
  : S;
/** A name in camel case or in snake case. */
export type Spelled<N extends string> = N | Snake<N>;

const plain = (name: string): string => name.replaceAll('_', '').toLowerCase();

/** The entry of a table, whichever way its name is spelled; undefined if there is none. */
export function lookUp<T>(table: Readonly<Record<string, T>>, name: string): T | undefined {
  if (Object.hasOwn(table, name)) return table[name];
  const found = Object.keys(table).find((key) => plain(key) === plain(name));
  return found === undefined ? undefined : table[found];
}

/** The same; throws with a suggestion if there is none. */
export function requireNamed<T>(table: Readonly<Record<string, T>>, name: string, what: string): T {
  const found = lookUp(table, name);
  if (found !== undefined) return found;
  const names = Object.keys(table);
  const closest = closestName(plain(String(name)), names.map(plain));
  const meant = names.find((one) => plain(one) === closest);
  throw invalid(`There is no ${what} '${name}'`, {
    hint: `${meant ? `Did you mean '${meant}'? ` : ''}Known are ${names.join(', ')}.`,
  });
}
