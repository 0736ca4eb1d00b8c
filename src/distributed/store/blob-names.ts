/**
 * Blob names: relative paths with `/` between the parts. Names come from the network, so a name that could escape the
 * root is invalid; the path on disk is checked again on use.
 */
import { lstat } from 'node:fs/promises';
import { join } from 'node:path';
import { invalid, ShoalError } from '../../base/errors/errors.js';

export type BlobName = string & { readonly ' brand': 'BlobName' };

/** The store's own directory below the root, for files being written. */
export const RESERVED = '.shoal-uploads';

const MAX_NAME_BYTES = 1024;
const MAX_PART_BYTES = 255;
/**
 * Control, format, unassigned and lone surrogate characters, line separators, the other slash, and percent, which
 * invites double decoding.
 */
const UNSAFE = /[\p{C}\p{Zl}\p{Zp}\\%]/u;

function whyNot(text: string): string | undefined {
  if (text === '') return 'it is empty';
  if (Buffer.byteLength(text) > MAX_NAME_BYTES) return `it is longer than ${MAX_NAME_BYTES} bytes`;
  if (UNSAFE.test(text)) return 'it contains a forbidden character';
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
  throw invalid(`${JSON.stringify(text.slice(0, 200))} is not a valid blob name: ${why}`, {
    hint: 'a name is a relative path such as train_logs/model.ckpt-0.index',
  });
}

/** The folder that contains all names with this prefix; undefined for the root. */
export function folderOf(prefix: string): BlobName | undefined {
  const end = prefix.lastIndexOf('/');
  return end < 0 ? undefined : blobName(prefix.slice(0, end));
}

/** The blob name in a request path, decoded exactly once. */
export function blobNameInUrl(url: string, prefix: string): BlobName {
  const path = url.split('?', 1)[0]!;
  if (!path.startsWith(prefix)) throw invalid('the request path is not normalized');
  let text: string;
  try {
    text = decodeURIComponent(path.slice(prefix.length));
  } catch (cause) {
    throw invalid('the request path has invalid percent-encoding', { cause });
  }
  return blobName(text);
}

export function blobPath(name: BlobName): string {
  return name.split('/').map(encodeURIComponent).join('/');
}

/** The path of a blob on disk. Refuses symbolic links, which could lead out of the root. */
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
      throw new ShoalError(
        'SHOAL_FORBIDDEN',
        `${parts.slice(0, depth).join('/')} is a symbolic link in ${root}`,
        {
          hint: 'blobs must be plain files in plain directories',
        },
      );
    }
  }
  return join(root, ...parts);
}
