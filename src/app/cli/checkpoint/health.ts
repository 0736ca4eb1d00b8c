/** What `shoal checkpoint ls` reports for a checkpoint: the number of copies, where they are, and what is missing. */

import type { Manifest, ManifestFile } from '../../../distributed/checkpoint/format/manifest.js';
import { isData, wantedCopies } from '../../../distributed/checkpoint/maintenance/repair.js';
import { type CatalogOptions, healthOf } from '../../../distributed/checkpoint/reading/catalog.js';
import type { OpenStore } from './open.js';

export interface CheckpointSummary {
  readonly job: string;
  readonly name: string;
  readonly attempt: string;
  readonly sequence: number;
  readonly step: number;
  readonly savedAtMs: number;
  readonly consistency: Manifest['consistency'];
  readonly bytes: number;
  readonly shards: number;
  readonly tensors: number;
  /** Copies of the file that has the fewest. */
  readonly copies: number;
  readonly wanted: number;
  /** The places that hold data files. */
  readonly places: readonly { readonly place: string; readonly host: string }[];
  /** `unavailable`: a file has no copy, and tasks that may hold one do not run. `lost`: all its holders run. */
  readonly health: 'complete' | 'degraded' | 'unavailable' | 'lost';
  readonly missing: readonly string[];
}

/** The places that got a copy of a file when it was saved, and whose tasks do not run, or whose directory is not there. */
export function absentHolders(open: Pick<OpenStore, 'places'>, entry: ManifestFile): readonly string[] {
  return entry.places.filter((place) => !open.places.some((one) => one.place === place && one.alive));
}

export async function summarize(
  open: OpenStore,
  job: string,
  manifest: Manifest,
  options: CatalogOptions = {},
): Promise<CheckpointSummary> {
  const { files } = await healthOf(open.store, job, manifest, options);
  const none = files.filter(({ places }) => places.length === 0).map(({ entry }) => entry);
  const isLost = none.some((entry) => absentHolders(open, entry).length === 0);
  const wanted = wantedCopies(manifest);
  const copies = Math.min(wanted, ...files.map(({ places }) => places.length));
  const holders = new Set(files.filter(({ entry }) => isData(entry.file)).flatMap(({ places }) => places));
  const missing = files
    .filter(({ places }) => places.length < wanted)
    .map(({ entry, places }) => {
      const away = entry.places.filter((place) => !places.includes(place));
      const where = away.length > 0 ? ` (was at ${away.join(', ')})` : '';
      return places.length === 0
        ? `no copy of ${entry.file}${where}`
        : `${entry.file} has ${places.length} of ${wanted} copies${where}`;
    });
  return {
    job: job === '' ? (manifest.job ?? '') : job,
    name: manifest.prefix,
    attempt: manifest.attempt,
    sequence: manifest.sequence,
    step: manifest.step,
    savedAtMs: manifest.savedAtMs,
    consistency: manifest.consistency,
    bytes: manifest.files.reduce((sum, { size }) => sum + size, 0),
    shards: manifest.shards,
    tensors: manifest.tensors,
    copies,
    wanted,
    places: open.places
      .filter(({ place }) => holders.has(place))
      .map(({ place, at }) => ({ place, host: at })),
    health: isLost ? 'lost' : none.length > 0 ? 'unavailable' : copies < wanted ? 'degraded' : 'complete',
    missing,
  };
}
