/** The programs that the documentation shows, all of which tests execute. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from '../setup/run-setup.js';

/** guide.test.ts runs each of them. */
export const GUIDE_PROGRAMS = readdirSync(join(ROOT, 'examples/guide')).map(
  (name) => `examples/guide/${name}`,
);

/** test/examples runs the job. */
const EXAMPLES = ['examples/wide-deep/model.ts'];

/** test/examples/keras.test.ts runs each of them. */
export const KERAS_PROGRAMS = readdirSync(join(ROOT, 'examples/keras')).map(
  (name) => `examples/keras/${name}`,
);

export const EXECUTED: readonly string[] = [...GUIDE_PROGRAMS, ...KERAS_PROGRAMS, ...EXAMPLES];
