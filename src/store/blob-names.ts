/**
 * Names of blobs: relative paths with `/` between the parts. A name is data from the network, so only what
 * cannot lead out of the root is a name at all; what it resolves to on disk is checked again when it is used.
 */
import { lstat } from 'node:fs/promises';
import { join } from 'node:path';
import { invalid, ShoalError } from '../errors/errors.js';

export type BlobName = string & { readonly ' brand': 'BlobName' };

/** Everything below this directory in the root is the store's own: files that are being written. */
export const RESERVED = '.shoal-uploads';

const MAX_NAME_BYTES = 1024;
const MAX_PART_BYTES = 255;
/** Control, format, unassigned and lone surrogate characters, line separators, the other slash, and percent, which invites double decoding. */
const UNSAFE = /[\p{C}\p{Zl}\p{Zp}\\%]/u;

function whyNot(text: string): string | undefined {
  if (text === '') return 'it is empty';
  if (Buffer.byteLength(text) > MAX_NAME_BYTES) return `it is longer than ${MAX_NAME_BYTES} bytes`;
  if (UNSAFE.test(text)) return 'it holds a character that a name may not';
  if (text.normalize('NFC') !== text) return 'it is not in Unicode normal form C';
  const parts = text.split('/');
  for (const part of parts) {
    if (part === '') return 'it has an empty part';
    if (part === '.' || part === '..') return `it has a part "${part}"`;
    if (part.trim() !== part) return 'a part begins or ends with a space';
    if (Buffer.byteLength(part) > MAX_PART_BYTES) return `a part is longer than ${MAX_PART_BYTES} bytes`;
  }
  return parts[0]!.toLowerCase() === RESERVED ? `"${RESERVED}" is reserved` : undefined;
}

export function blobName(text: string): BlobName {
  const why = whyNot(text);
  if (why === undefined) return text as BlobName;
  throw invalid(`${JSON.stringify(text.slice(0, 200))} is no blob name: ${why}`, {
    hint: 'a name is a relative path such as train_logs/model.ckpt-0.index',
  });
}

/** The folder in which all names with this prefix lie; undefined for the root. */
export function folderOf(prefix: string): BlobName | undefined {
  const end = prefix.lastIndexOf('/');
  return end < 0 ? undefined : blobName(prefix.slice(0, end));
}

/** The name in the path of a request, decoded exactly once. */
export function blobNameInUrl(url: string, prefix: string): BlobName {
  const path = url.split('?', 1)[0]!;
  if (!path.startsWith(prefix)) throw invalid('the path of the request is not in its plain form');
  let text: string;
  try {
    text = decodeURIComponent(path.slice(prefix.length));
  } catch (cause) {
    throw invalid('the path of the request is not well encoded', { cause });
  }
  return blobName(text);
}

export function blobPath(name: BlobName): string {
  return name.split('/').map(encodeURIComponent).join('/');
}

/** Where a blob lies on disk. Refuses a way through a symbolic link: it could lead anywhere. */
export async function locate(root: string, name: BlobName): Promise<string> {
  const parts = name.split('/');
  for (let depth = 1; depth <= parts.length; depth++) {
    const path = join(root, ...parts.slice(0, depth));
    const stat = await lstat(path).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return undefined;
      throw error;
    });
    if (stat === undefined) break;
    if (stat.isSymbolicLink()) {
      throw new ShoalError('SHOAL_FORBIDDEN', `${parts.slice(0, depth).join('/')} is a symbolic link`, {
        hint: 'the blobs of an agent are plain files in plain directories',
      });
    }
  }
  return join(root, ...parts);
}
