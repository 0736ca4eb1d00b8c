/** Files that contain a secret: a token or a private key. */
import { closeSync, fstatSync, openSync, readFileSync } from 'node:fs';
import { ShoalError } from '../../../base/errors/errors.js';

/**
 * Reads a file that only its owner can access; refuses any other. A file of another owner may be group-readable, as
 * secrets mounted into a container are.
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
        `${path} contains a secret but other users can access it (mode ${(mode & 0o777).toString(8)})`,
        { hint: `chmod 600 ${path}` },
      );
    }
    return readFileSync(file, 'utf8');
  } finally {
    closeSync(file);
  }
}
