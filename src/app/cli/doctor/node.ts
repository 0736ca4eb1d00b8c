/** Checks the version of Node. */
import { type Finding, ok, problem } from './finding.js';

const OLDEST = { major: 20, minor: 19 } as const;

export function checkNode(version: string): Finding {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const needed = `${OLDEST.major}.${OLDEST.minor}`;
  const details = { version, needed };
  if (major > OLDEST.major || (major === OLDEST.major && minor >= OLDEST.minor))
    return ok('node', version, details);
  return problem('node', `${version} is too old`, `Install Node ${needed} or later.`, details);
}
