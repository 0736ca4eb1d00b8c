/** Whether the values of a checkpoint or an export are all of one moment. */
import * as v from 'valibot';
import { invalid } from '../errors/errors.js';

/** `consistent`: workers pause, all values are of one moment. `relaxed`: they train on meanwhile, as in TensorFlow. */
export type Consistency = 'consistent' | 'relaxed';

/** With the words of the first release, which are accepted for one more. */
export type ConsistencyOption = Consistency | 'cut' | 'loose';

const FORMER = { cut: 'consistent', loose: 'relaxed' } as const;

export function consistencyOf(given: ConsistencyOption = 'consistent'): Consistency {
  if (given === 'consistent' || given === 'relaxed') return given;
  if (!Object.hasOwn(FORMER, given)) {
    throw invalid(`consistency is ${JSON.stringify(given)}`, { hint: "It is 'consistent' or 'relaxed'." });
  }
  return FORMER[given];
}

/** As it stands in a manifest. */
export const ConsistencySchema = v.pipe(
  v.picklist(['consistent', 'relaxed', 'imported', 'cut', 'loose']),
  v.transform((given) => (given === 'imported' ? given : consistencyOf(given))),
);
