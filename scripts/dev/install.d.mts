/** Types of install.mjs, for its test. */
export function packagesAreCurrent(root: string): boolean;
