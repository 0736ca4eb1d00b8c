/** Types of test-selection.mjs, for its test. */
export function selectTests(args: readonly string[]): string[];
