/** Reports which library computes checksums. Both work, so this is informational. */
import { locateCrc32c } from '../../../tensorflow/native/library/locate.js';
import { type Finding, ok } from './finding.js';

export function checkChecksums(env: Readonly<NodeJS.ProcessEnv>): Finding {
  const path = locateCrc32c(env);
  const missing = 'by the npm package; `npx shoal setup` installs a faster library on Linux';
  return ok('checksums', path === undefined ? missing : `by libcrc32c, ${path}`, { path });
}
