/** Checks the free disk space before something large is written. */
import { statfs } from 'node:fs/promises';
import { SetupError } from './errors.mjs';
import { megabytes } from './progress.mjs';

/** Throws if fewer than `needed` bytes are free in `directory`, which exists. `what` names what needs them. */
export async function checkSpace(what, directory, needed, { hint }) {
  const { bavail, bsize } = await statfs(directory);
  const free = bavail * bsize;
  if (free >= needed) return;
  throw new SetupError(
    'SHOAL_NO_SPACE',
    'full-disk',
    `${what} needs ${megabytes(needed)} MB in ${directory}, and ${megabytes(free)} MB are free`,
    { hint },
  );
}
