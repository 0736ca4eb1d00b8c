/** The curves and events in the event files of a job. */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { type Event, SessionLog_SessionStatus } from '../../../base/proto/generated/event_pb.js';
import { readEvents } from '../../../tensorflow/formats/events/event-reader.js';
import { Series, type SeriesPoint } from '../record/series.js';

export interface FoundEvents {
  readonly curves: ReadonlyMap<string, readonly SeriesPoint[]>;
  readonly saves: readonly { readonly at: number; readonly step: number; readonly path: string }[];
  readonly lastStep: number | null;
}

const MOST_FILES = 200;
const MOST_CURVES = 60;
const DEEPEST = 4;

/** Reads all event files below a directory. A damaged one is read as far as possible. */
export async function readEventFiles(
  directory: string,
  prefixOf: (path: string) => string,
): Promise<FoundEvents> {
  const series = new Map<string, Series>();
  const saves: { at: number; step: number; path: string }[] = [];
  let lastStep: number | null = null;
  let last = 0;
  for (const path of (await eventFiles(directory, DEEPEST)).slice(0, MOST_FILES)) {
    try {
      for await (const event of readEvents(path, { partial: true, onCorrupt: 'skip' })) {
        const [at, step] = [event.wallTime * 1000, Number(event.step)];
        last = Math.max(last, at);
        if (event.what.case === 'sessionLog') {
          const { status, checkpointPath } = event.what.value;
          if (status === SessionLog_SessionStatus.CHECKPOINT) saves.push({ at, step, path: checkpointPath });
        }
        lastStep = Math.max(lastStep ?? 0, step);
        for (const { tag, value } of scalarsOf(event)) {
          const name = `${prefixOf(path)}${tag}`;
          const known = series.get(name) ?? (series.size < MOST_CURVES ? new Series() : undefined);
          if (known === undefined) continue;
          series.set(name, known);
          known.add(at, step, value);
        }
      }
    } catch {
      // What was read before the damage stays.
    }
  }
  const end = last + 10_000;
  const curves = new Map([...series].map(([name, one]) => [name, one.since(0, end)]));
  return { curves, saves, lastStep };
}

function scalarsOf({ what }: Event): readonly { readonly tag: string; readonly value: number }[] {
  if (what.case !== 'summary') return [];
  return what.value.value.flatMap(({ tag, value }) =>
    value.case === 'simpleValue' ? [{ tag, value: value.value }] : [],
  );
}

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
