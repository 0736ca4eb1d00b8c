/**
 * The disk of one task, and no other: where the shards of an export are collected. A ps writes to it through the agent of
 * that task; the task itself, and a ps on the same machine that sees the directory, directly.
 *
 * Whether a ps sees it is found out by a mark: a file in the directory with a random content, which the address of the store
 * tells. Only who can write to the directory can put it there.
 */
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { DirectoryStore } from '../disk/directory-store.js';
import type { Peers } from './peers.js';
import { PeersStore } from './peers-store.js';
import { remoteDisk } from './remote-disk.js';

const SCHEME = 'place:';

export interface PlaceStoreOptions {
  readonly peers: Peers;
  /** The task whose disk it is: `worker/1`. */
  readonly place: string;
  /** The disk of this task. */
  readonly directory: DirectoryStore;
  readonly mark?: PlaceMark | undefined;
}

export interface PlaceMark {
  /** The directory of the place's blobs, as the place itself names it. */
  readonly directory: string;
  /** A file in it. */
  readonly file: string;
  readonly content: string;
}

/** Marks a directory of blobs; the mark is a blob too, and is removed as such. */
export async function markPlace(directory: string, file: string): Promise<PlaceMark> {
  const content = randomBytes(16).toString('hex');
  const path = join(directory, file);
  await mkdir(dirname(path), { recursive: true });
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

/** The place of such an address, and its mark; undefined for the address of another store. */
export function placeOfUrl(
  url: string,
): { readonly place: string; readonly mark: PlaceMark | undefined } | undefined {
  if (!url.startsWith(SCHEME)) return undefined;
  const [place = '', query = ''] = url.slice(SCHEME.length).split('?', 2);
  const { directory, file, content } = Object.fromEntries(new URLSearchParams(query));
  return { place, mark: directory && file && content ? { directory, file, content } : undefined };
}
