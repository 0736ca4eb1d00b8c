/** What `shoal checkpoint ls` reports for a checkpoint: the number of copies, where they are, and what is missing. */
import { type CatalogOptions, healthOf } from '../../checkpoint/catalog.js';
import type { Manifest } from '../../checkpoint/manifest.js';
import { isData, wantedCopies } from '../../checkpoint/repair.js';
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
  readonly health: 'complete' | 'degraded' | 'lost';
  readonly missing: readonly string[];
}

export async function summarize(
  open: OpenStore,
  job: string,
  manifest: Manifest,
  options: CatalogOptions = {},
): Promise<CheckpointSummary> {
  const { files, missing: lost } = await healthOf(open.store, job, manifest, options);
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
    health: lost.length > 0 ? 'lost' : copies < wanted ? 'degraded' : 'complete',
    missing,
  };
}
