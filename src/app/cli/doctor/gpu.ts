/** Looks for a GPU. The pinned libraries compute on the CPU, so this is informational, never a problem. */
import { readdirSync } from 'node:fs';
import { type Finding, ok } from './finding.js';

export function checkGpu(): Finding {
  const devices = nvidiaDevices();
  if (devices.length === 0) return ok('gpu', 'none', { devices });
  return ok('gpu', `${devices.join(', ')}; the pinned libraries compute on the CPU`, { devices });
}

function nvidiaDevices(): string[] {
  if (process.platform !== 'linux') return [];
  return readdirSync('/dev')
    .filter((name) => /^nvidia\d+$/.test(name))
    .map((name) => `/dev/${name}`);
}
