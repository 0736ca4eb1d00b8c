/**
 * Fault injection for tests: `SHOAL_FAULT=checkpoint.write.before=kill` kills the process at that point with SIGKILL,
 * `=error` throws, `=stop` suspends the process with SIGSTOP until SIGCONT, `=wait` never returns; `#2` after the name
 * means the second pass. Without the variable a fault point costs one lookup.
 */
import { ShoalError } from '../errors/errors.js';

const passed = new Map<string, number>();

export async function faultPoint(name: string): Promise<void> {
  const faults = process.env.SHOAL_FAULT;
  if (faults === undefined) return;
  const count = (passed.get(name) ?? 0) + 1;
  passed.set(name, count);
  for (const fault of faults.split(',')) {
    const match = /^([^=#]+)(?:#(\d+))?=(kill|error|stop|wait)$/.exec(fault);
    if (match?.[1] !== name || (match[2] !== undefined && Number(match[2]) !== count)) continue;
    if (match[3] === 'error') throw new ShoalError('SHOAL_INTERNAL', `Injected fault ${name}`);
    if (match[3] === 'kill') process.kill(process.pid, 'SIGKILL');
    if (match[3] === 'stop') {
      process.kill(process.pid, 'SIGSTOP');
      return;
    }
    await new Promise(() => setInterval(() => {}, 1 << 30));
  }
}
