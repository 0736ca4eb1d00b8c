import { fileURLToPath } from 'node:url';

/** The package's directory. */
export const ROOT = fileURLToPath(new URL('../..', import.meta.url)).replace(/\/$/, '');
