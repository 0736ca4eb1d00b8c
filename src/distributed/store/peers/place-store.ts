/**
 * The disk of a single task: where the shards of an export are collected. A ps writes to it through the agent of that
 * task; the task itself, and a ps on the same machine that can access the directory, write directly.
 *
 * A marker file shows whether a ps can access the directory: its random content is part of the store's URL. Only a
 * process that can write to the directory can create it.
 */
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { makeDirectory } from '../../../base/files/directories.js';
import { DirectoryStore } from '../disk/directory-store.js';
import type { Peers } from './peers.js';
import { PeersStore } from './peers-store.js';
import { remoteDisk } from './remote-disk.js';

const SCHEME = 'place:';

export interface PlaceStoreOptions {
  readonly peers: Peers;
  /** The task that owns the disk: `worker/1`. */
  readonly place: string;
  /** The disk of this task. */
  readonly directory: DirectoryStore;
  readonly mark?: PlaceMark;
}

export interface PlaceMark {
  /** The path of the place's blobs on its own machine. */
  readonly directory: string;
  /** The marker file's path in the directory. */
  readonly file: string;
  readonly content: string;
}

/** Creates the marker file in a blob directory. It is a blob too, and removed as one. */
export async function markPlace(directory: string, file: string): Promise<PlaceMark> {
  const content = randomBytes(16).toString('hex');
  const path = join(directory, file);
  await makeDirectory(dirname(path));
  await writeFile(path, content, { flag: 'wx' });
  return { directory, file, content };
}

function isSeen({ directory, file, content }: PlaceMark): boolean {
  try {
    return readFileSync(join(directory, file), 'utf8') === content;
  } catch {
    return false;
  }
}

export class PlaceStore extends PeersStore {
  override readonly url: string;

  constructor({ peers, place, directory, mark }: PlaceStoreOptions) {
    const isOwn = place === peers.self;
    const seen = !isOwn && mark && isSeen(mark) ? new DirectoryStore(mark.directory) : undefined;
    super({
      replicas: 0,
      directory: isOwn ? directory : (seen ?? remoteDisk(peers.blobs(place), place)),
      peers: {
        ...peers,
        self: place,
        members: () => peers.members().filter((member) => member.place === place),
        // The receiving agent decides whether this task may write there.
        ...(isOwn ? {} : { refusal: undefined }),
      },
    });
    this.url = placeUrl(place, mark);
  }
}

export const placeUrl = (place: string, mark?: PlaceMark): string =>
  SCHEME + place + (mark ? `?${new URLSearchParams({ ...mark })}` : '');

/** The place and mark in the URL of a place store; undefined for other URLs. */
export function placeOfUrl(
  url: string,
): { readonly place: string; readonly mark: PlaceMark | undefined } | undefined {
  if (!url.startsWith(SCHEME)) return undefined;
  const [place = '', query = ''] = url.slice(SCHEME.length).split('?', 2);
  const { directory, file, content } = Object.fromEntries(new URLSearchParams(query));
  return { place, mark: directory && file && content ? { directory, file, content } : undefined };
}
