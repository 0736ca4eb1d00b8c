/** The curves and events in the event files of a job. */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { SessionLog_SessionStatus } from '../../../base/proto/generated/event_pb.js';
import { readEvents } from '../../../tensorflow/formats/events/event-reader.js';
import { Series, type SeriesPoint } from '../record/series.js';
import { SummaryMemory } from '../record/summaries.js';

export interface FoundEvents {
  readonly curves: ReadonlyMap<string, readonly SeriesPoint[]>;
  readonly saves: readonly { readonly at: number; readonly step: number; readonly path: string }[];
  readonly lastStep: number | null;
  readonly summaries: SummaryMemory;
}

const MOST_FILES = 200;
const MOST_CURVES = 60;
const DEEPEST = 4;

/** Reads event files. A damaged one is read as far as possible. */
export async function readEventFiles(
  files: readonly string[],
  prefixOf: (path: string) => string,
): Promise<FoundEvents> {
  const summaries = new SummaryMemory();
  const series = new Map<string, Series>();
  const saves: { at: number; step: number; path: string }[] = [];
  let lastStep: number | null = null;
  let last = 0;
  for (const path of files) {
    try {
      for await (const event of readEvents(path, { partial: true, onCorrupt: 'skip' })) {
        const [at, step] = [event.wallTime * 1000, Number(event.step)];
        last = Math.max(last, at);
        if (event.what.case === 'sessionLog') {
          const { status, checkpointPath } = event.what.value;
          if (status === SessionLog_SessionStatus.CHECKPOINT) saves.push({ at, step, path: checkpointPath });
        }
        lastStep = Math.max(lastStep ?? 0, step);
        for (const one of event.what.case === 'summary' ? event.what.value.value : []) {
          const name = `${prefixOf(path)}${one.tag}`;
          if (one.value.case !== 'simpleValue') {
            summaries.add({ ...one, tag: name }, { at, step });
            continue;
          }
          const known = series.get(name) ?? (series.size < MOST_CURVES ? new Series() : undefined);
          if (known === undefined) continue;
          series.set(name, known);
          known.add(at, step, one.value.value);
        }
      }
    } catch {
      // What was read before the damage stays.
    }
  }
  const end = last + 10_000;
  const curves = new Map([...series].map(([name, one]) => [name, one.since(0, end)]));
  return { curves, saves, lastStep, summaries };
}

/** The event files below a directory. */
export const eventFilesIn = async (directory: string): Promise<readonly string[]> =>
  (await eventFiles(directory, DEEPEST)).slice(0, MOST_FILES);

async function eventFiles(directory: string, depth: number): Promise<readonly string[]> {
  if (depth === 0) return [];
  const entries = await readdir(directory, { withFileTypes: true }).catch(() => []);
  const found = await Promise.all(
    entries.map(async (entry) => {
      const path = join(directory, entry.name);
      // Blobs are checkpoints, and there may be many.
      if (entry.isDirectory()) return entry.name === 'blobs' ? [] : await eventFiles(path, depth - 1);
      return entry.name.includes('.tfevents.') ? [path] : [];
    }),
  );
  return found.flat().sort();
}
