/** Rejects options with a name that does not exist: they would be ignored. Programs in JavaScript have no other check. */
import { invalid } from './errors.js';
import { type OrNull, withoutNull } from './null-options.js';

/** The names of all options; the compiler checks that none is missing. */
export type Names<T> = Readonly<Record<keyof T, true>>;

/** The name that was probably meant; undefined if none is close. */
export function closestName(given: string, names: readonly string[]): string | undefined {
  const limit = given.length > 4 ? 2 : 1;
  const [best] = names
    .map((name) => ({ name, distance: editDistance(given.toLowerCase(), name.toLowerCase()) }))
    .filter(({ distance }) => distance <= limit)
    .sort((a, b) => a.distance - b.distance);
  return best?.name;
}

/** The number of letters to insert, remove or replace. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const above = row;
    row = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = (above[j - 1] as number) + (a[i - 1] === b[j - 1] ? 0 : 1);
      row.push(Math.min(replaced, (above[j] as number) + 1, (row[j - 1] as number) + 1));
    }
  }
  return row[b.length] as number;
}

/** Throws with the message of the first name that is not known. */
export function checkNames(given: unknown, known: object, message: (name: string) => string): void {
  if (typeof given !== 'object' || given === null) return;
  const unknown = Object.keys(given).find((key) => !Object.hasOwn(known, key));
  if (unknown === undefined) return;
  const closest = closestName(unknown, Object.keys(known));
  const meant = closest === undefined ? '' : `Did you mean '${closest}'? `;
  throw invalid(message(unknown), {
    hint: `${meant}The options there are ${Object.keys(known).join(', ')}.`,
  });
}

/** The options without those that are null; see `withoutNull`. `what` has them: `a Saver`. */
export function knownOptions<O extends object>(
  given: OrNull<O> | null | undefined,
  names: Names<O>,
  what: string,
  kept: readonly (keyof O)[] = [],
): O {
  checkNames(given, names, (name) => `${what} has no option '${name}'`);
  return withoutNull<O>(given, kept);
}
