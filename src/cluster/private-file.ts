/** Files that hold a secret: a token or a private key. */
import { closeSync, fstatSync, openSync, readFileSync } from 'node:fs';
import { ShoalError } from '../errors/errors.js';

/** Reads a file that only its owner may read; refuses one that others can. */
export function readPrivateFile(path: string): string {
  const file = openSync(path, 'r');
  try {
    const { mode } = fstatSync(file);
    // Windows has no such bits.
    if (process.platform !== 'win32' && (mode & 0o077) !== 0) {
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
