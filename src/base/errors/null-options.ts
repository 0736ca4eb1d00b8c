/** Options as programs that come from Python pass them: None, here null, stands for the default. */

/** The same options, where null is the default. */
export type OrNull<O extends object> = { readonly [K in keyof O]: O[K] | null };

/** The options without those that are null. `kept` names options for which null is a value of its own. */
export function withoutNull<O extends object>(
  options: OrNull<O> | null | undefined,
  kept: readonly (keyof O)[] = [],
): O {
  if (options === null || options === undefined) return {} as O;
  const entries = Object.entries(options);
  const isNull = ([name, value]: [string, unknown]) => value === null && !kept.includes(name as keyof O);
  if (!entries.some(isNull)) return options as O;
  return Object.fromEntries(entries.filter((entry) => !isNull(entry))) as O;
}
