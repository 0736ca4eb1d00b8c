/** The programs that the documentation shows, all of which test/docs executes. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from '../setup/run-setup.js';

/** guide.test.ts runs each of them. */
export const GUIDE_PROGRAMS = readdirSync(join(ROOT, 'examples/guide')).map(
  (name) => `examples/guide/${name}`,
);

export const EXECUTED: readonly string[] = GUIDE_PROGRAMS;
