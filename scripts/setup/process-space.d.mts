/** Types of process-space.mjs, for the TypeScript that imports it. */

export function processSpace(): string;
