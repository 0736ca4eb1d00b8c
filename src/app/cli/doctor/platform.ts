/** Checks whether a TensorFlow build is pinned for this platform. */
import { release } from 'node:os';
import { platformKey, readLock } from '../../../../scripts/setup/locate.mjs';
import { type Finding, ok, problem, warning } from './finding.js';

export function checkPlatform(env: Readonly<NodeJS.ProcessEnv>): Finding {
  const platform = platformKey();
  const { platforms, version } = readLock();
  const details = {
    platform,
    kernel: release(),
    pinnedTensorFlow: version,
    supported: Object.keys(platforms),
  };
  if (platforms[platform]) return ok('platform', `${platform}, kernel ${release()}`, details);
  const known = Object.keys(platforms).join(', ');
  const summary = `${platform} is not one of ${known}`;
  if (env.SHOAL_TF_DIR) {
    return warning(
      'platform',
      summary,
      'The libraries in SHOAL_TF_DIR are used as they are; this platform is not tested.',
      details,
    );
  }
  return problem(
    'platform',
    summary,
    `Use one of ${known}, or build TensorFlow and set SHOAL_TF_DIR.`,
    details,
  );
}
