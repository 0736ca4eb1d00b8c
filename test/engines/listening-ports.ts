/** The ports on which a process accepts connections, as `ss -ltnp` shows them. */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

const LISTEN = '0A';

export function listeningPorts(pid: number): number[] {
  const own = new Set(
    readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
      try {
        return /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/${pid}/fd/${fd}`))?.[1] ?? [];
      } catch {
        // It was closed meanwhile.
        return [];
      }
    }),
  );
  const ports = ['tcp', 'tcp6'].flatMap((kind) =>
    readFileSync(`/proc/${pid}/net/${kind}`, 'utf8')
      .split('\n')
      .slice(1)
      .map((line) => line.trim().split(/\s+/))
      .filter((fields) => fields[3] === LISTEN && own.has(fields[9] as string))
      .map((fields) => Number.parseInt((fields[1] as string).split(':').at(-1) as string, 16)),
  );
  return [...new Set(ports)].sort((a, b) => a - b);
}
