/** Files that hold a secret: a token or a private key. */
import { closeSync, fstatSync, openSync, readFileSync } from 'node:fs';
import { ShoalError } from '../../errors/errors.js';

/**
 * Reads a file that only its owner may read; refuses one that others can. A file of another owner may be readable by a
 * group: how else would this process read it, as where a secret is mounted for a container?
 */
export function readPrivateFile(path: string): string {
  const file = openSync(path, 'r');
  try {
    const { mode, uid } = fstatSync(file);
    const isOwn = uid === process.getuid?.();
    // Windows has no such bits.
    if (process.platform !== 'win32' && (mode & (isOwn ? 0o077 : 0o037)) !== 0) {
      throw new ShoalError(
        'SHOAL_CONFIG',
        `${path} holds a secret and is open to others than its owner (mode ${(mode & 0o777).toString(8)})`,
        { hint: `chmod 600 ${path}` },
      );
    }
    return readFileSync(file, 'utf8');
  } finally {
    closeSync(file);
  }
}
