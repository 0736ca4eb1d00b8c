/**
 * Checks whether an unprivileged process can create user and network namespaces. The secure mode keeps TensorFlow's
 * unauthenticated ports in one. The kernel's settings explain a refusal; only an attempt shows for certain.
 */
import { readFileSync } from 'node:fs';
import { run } from '../../../../scripts/setup/processes.mjs';
import { type Finding, ok, warning } from './finding.js';

const PROBE_MS = 5_000;

const SETTINGS = {
  'kernel.unprivileged_userns_clone': {
    file: '/proc/sys/kernel/unprivileged_userns_clone',
    forbids: '0',
    allow: '1',
  },
  'user.max_user_namespaces': { file: '/proc/sys/user/max_user_namespaces', forbids: '0', allow: '10000' },
  'kernel.apparmor_restrict_unprivileged_userns': {
    file: '/proc/sys/kernel/apparmor_restrict_unprivileged_userns',
    forbids: '1',
    allow: '0',
  },
} as const;

export async function checkNamespaces(): Promise<Finding> {
  const name = 'namespaces';
  if (process.platform !== 'linux') {
    return warning(name, 'supported on Linux only', 'Run tasks that need the secure mode on Linux.', {
      allowed: false,
    });
  }
  const probe = await run('unshare', ['--user', '--map-root-user', '--net', 'true'], {
    signal: AbortSignal.timeout(PROBE_MS),
  }).catch((error: unknown) => ({ code: 1, output: String(error), missing: false }));
  const settings = readSettings();
  const details = { allowed: probe.code === 0, settings };
  if (probe.missing)
    return warning(name, 'not tested: `unshare` is not installed', 'Install util-linux.', details);
  if (probe.code === 0) return ok(name, 'user and network namespaces are allowed', details);
  const culprit = Object.entries(SETTINGS).find(([key, { forbids }]) => settings[key] === forbids);
  const fix = culprit
    ? `As root: sysctl -w ${culprit[0]}=${culprit[1].allow}. Without namespaces the secure mode is not available.`
    : 'A container or security policy forbids them; in Docker allow unshare in the seccomp profile. Needed only for the secure mode.';
  return warning(name, `not allowed: ${probe.output.trim().split('\n')[0]}`, fix, details);
}

function readSettings(): Record<string, string | undefined> {
  return Object.fromEntries(Object.entries(SETTINGS).map(([key, { file }]) => [key, readSetting(file)]));
}

/** Which settings exist depends on the kernel and the distribution. */
function readSetting(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8').trim();
  } catch {
    return undefined;
  }
}
