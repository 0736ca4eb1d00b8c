/**
 * The record of the end of a job's training, beside its checkpoints: a job that has ended before its last step cannot be
 * told from one that was killed by its checkpoints alone. Every task that can read the store knows the end from it.
 *
 *   <namespace>/ends/<job>/<sequence>-<step>-of-<last step>.json
 *
 * The name says everything, so that a listing suffices, and a copy on a task that was absent later misleads nobody. A
 * record holds for the last step that the job had then, as long as its checkpoint is there and is the newest. A chief
 * that begins with an earlier step, because that checkpoint cannot be restored, removes it.
 */

import type { Store } from '../../store/store.js';
import { manifestsPrefix, parseManifestBlob, within } from '../format/names.js';
import { encodeSealed } from '../format/sealed-json.js';
import type { CatalogOptions } from './catalog.js';

export interface EndRecord {
  /** The sequence of the last checkpoint. */
  readonly sequence: number;
  /** Its step. */
  readonly step: number;
  /** The step at which the job would have ended at the latest. */
  readonly lastStep: number;
}

/** Whose end. */
export interface EndedJob {
  readonly namespace: string;
  readonly job: string;
  readonly lastStep: number;
}

export interface FoundEnd extends EndRecord {
  /** The places that have a copy. */
  readonly places: readonly string[];
}

const MAX_BYTES = 64 << 10;
const NAME = /\/(\d{12,})-(\d+)-of-(\d+)\.json$/;

const endsPrefix = ({ namespace, job }: Pick<EndedJob, 'namespace' | 'job'>): string =>
  within(namespace, `ends/${job}/`);

/** Replaces the records of earlier ends. */
export async function recordEnd(
  store: Store,
  { namespace, job, lastStep }: EndedJob,
  { sequence, step }: Pick<EndRecord, 'sequence' | 'step'>,
  { endedAtMs, ...options }: CatalogOptions & { readonly endedAtMs: number },
): Promise<void> {
  const prefix = endsPrefix({ namespace, job });
  const name = `${prefix}${String(sequence).padStart(12, '0')}-${step}-of-${lastStep}.json`;
  const record = { format: 'shoal-training-end', version: 1, job, sequence, step, lastStep, endedAtMs };
  const bytes = encodeSealed(record, { what: `The record of the end of ${job}`, maxBytes: MAX_BYTES });
  const { signal, timeoutMs } = options;
  await store.put(name, bytes, { signal, timeoutMs, copies: 'everywhere' });
  await removeEnds(store, prefix, { signal, timeoutMs }, name);
}

/** The job trains again: removes the records of its ends. */
export async function forgetEnd(store: Store, job: EndedJob, options: CatalogOptions = {}): Promise<void> {
  await removeEnds(store, endsPrefix(job), options);
}

async function removeEnds(
  store: Store,
  prefix: string,
  { signal, timeoutMs }: CatalogOptions,
  kept?: string,
): Promise<void> {
  for await (const { name } of store.list(prefix, { signal, timeoutMs }))
    if (name !== kept && NAME.test(name)) await store.remove(name, { signal, timeoutMs });
}

/** The end of the job's training, if it has ended; undefined if it has not, or no reachable place has the record. */
export async function findEnd(
  store: Store,
  { namespace, job, lastStep }: EndedJob,
  { signal, timeoutMs }: CatalogOptions = {},
): Promise<FoundEnd | undefined> {
  let found: FoundEnd | undefined;
  for await (const { name, places } of store.list(endsPrefix({ namespace, job }), { signal, timeoutMs })) {
    const match = NAME.exec(name);
    if (!match || Number(match[3]) !== lastStep) continue;
    const sequence = Number(match[1]);
    if (sequence > (found?.sequence ?? -1)) found = { sequence, step: Number(match[2]), lastStep, places };
  }
  if (!found) return undefined;
  let hasCheckpoint = false;
  for await (const { name } of store.list(manifestsPrefix(namespace), { signal, timeoutMs })) {
    const { sequence = 0, step } = parseManifestBlob(name) ?? {};
    if (sequence > found.sequence) return undefined;
    if (sequence === found.sequence && step === found.step) hasCheckpoint = true;
  }
  return hasCheckpoint ? found : undefined;
}
