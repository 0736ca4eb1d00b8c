/** Types of disk-space.mjs, for the TypeScript that imports it. */
export function checkSpace(
  what: string,
  directory: string,
  needed: number,
  details: { readonly hint: string },
): Promise<void>;
