/** Whether a checkpoint or an export is a consistent snapshot. */
import * as v from 'valibot';
import { invalid } from '../../../base/errors/errors.js';

/** `consistent`: workers pause, all values are of one moment. `relaxed`: they keep training, as in TensorFlow. */
export type Consistency = 'consistent' | 'relaxed';

export function consistencyOf(given: Consistency = 'consistent'): Consistency {
  if (given === 'consistent' || given === 'relaxed') return given;
  throw invalid(`consistency is ${JSON.stringify(given)}`, { hint: "It is 'consistent' or 'relaxed'." });
}

/** The value that is written to a manifest. */
export const STORED = { consistent: 'cut', relaxed: 'loose', imported: 'imported' } as const;

const READ = {
  cut: 'consistent',
  loose: 'relaxed',
  consistent: 'consistent',
  relaxed: 'relaxed',
  imported: 'imported',
} as const;

/** The value in a manifest: as stored, or in the words of the options. */
export const ConsistencySchema = v.pipe(
  v.picklist(['consistent', 'relaxed', 'imported', 'cut', 'loose']),
  v.transform((stored) => READ[stored]),
);
