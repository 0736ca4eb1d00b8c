/** Whether a checkpoint or an export is a consistent snapshot. */
import * as v from 'valibot';
import { invalid } from '../../../base/errors/errors.js';

/** `consistent`: workers pause, all values are of one moment. `relaxed`: they keep training, as in TensorFlow. */
export type Consistency = 'consistent' | 'relaxed';

/** Includes the deprecated names of the first release. */
export type ConsistencyOption = Consistency | 'cut' | 'loose';

const FORMER = { cut: 'consistent', loose: 'relaxed' } as const;

export function consistencyOf(given: ConsistencyOption = 'consistent'): Consistency {
  if (given === 'consistent' || given === 'relaxed') return given;
  if (!Object.hasOwn(FORMER, given)) {
    throw invalid(`consistency is ${JSON.stringify(given)}`, { hint: "It is 'consistent' or 'relaxed'." });
  }
  return FORMER[given];
}

/** The value that is written to a manifest: the first release reads only these. */
export const STORED = { consistent: 'cut', relaxed: 'loose', imported: 'imported' } as const;

/** The value in a manifest. */
export const ConsistencySchema = v.pipe(
  v.picklist(['consistent', 'relaxed', 'imported', 'cut', 'loose']),
  v.transform((given) => (given === 'imported' ? given : consistencyOf(given))),
);
