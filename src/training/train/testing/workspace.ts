/** A temporary directory for one test file, and readers for event files in it. */
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Event } from '../../../base/proto/generated/event_pb.js';
import { readEvents } from '../../../tensorflow/formats/events/event-reader.js';

export class Workspace implements AsyncDisposable {
  readonly root: string;
  #count = 0;

  private constructor(root: string) {
    this.root = root;
  }

  static async make(): Promise<Workspace> {
    return new Workspace(await mkdtemp(join(tmpdir(), 'shoal-train-')));
  }

  /** A unique path that does not exist yet. */
  path(): string {
    return join(this.root, `d${++this.#count}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.root, { recursive: true, force: true });
  }
}

export async function eventsIn(directory: string): Promise<Event[]> {
  const names = (await readdir(directory)).filter((name) => name.includes('tfevents')).sort();
  const events: Event[] = [];
  for (const name of names) for await (const event of readEvents(join(directory, name))) events.push(event);
  return events;
}

/** The values of a tag, by step. */
export async function scalarsIn(directory: string, tag: string): Promise<[step: number, value: number][]> {
  return (await eventsIn(directory)).flatMap(({ step, what }) =>
    what.case === 'summary'
      ? what.value.value.flatMap(({ tag: own, value }): [number, number][] =>
          own === tag && value.case === 'simpleValue' ? [[Number(step), value.value]] : [],
        )
      : [],
  );
}
