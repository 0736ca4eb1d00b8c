/**
 * Where a process id is unique: a boot of a kernel, and a namespace of process ids on it. Containers may have equal host
 * names, and one host may run many of them.
 */
import { createHash } from 'node:crypto';
import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';

/** The same for two processes if and only if they see each other's ids. Without /proc hosts are told apart by name. */
export function processSpace() {
  const parts = [hostname()];
  try {
    parts.push(readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim());
    parts.push(readlinkSync('/proc/self/ns/pid'));
  } catch {
    // Not Linux, or /proc is not mounted.
  }
  return createHash('sha256').update(parts.join(' ')).digest('hex').slice(0, 16);
}
