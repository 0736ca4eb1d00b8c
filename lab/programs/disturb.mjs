/**
 * Loaded by every task of the failover cluster before its program (`node --import`): the files `fault` and `clock` in
 * the working directory disturb the process. They are read at the start and on SIGUSR2.
 *
 *   fault   the fault points of the task, as in SHOAL_FAULT (see src/async/fault-point.ts)
 *   clock   by how many milliseconds the wall clock of this process is wrong; the monotonic clock is not affected
 */
import { readFileSync } from 'node:fs';

const SystemDate = globalThis.Date;
const systemNow = SystemDate.now;
let offsetMs = 0;

SystemDate.now = () => systemNow() + offsetMs;
globalThis.Date = new Proxy(SystemDate, {
  construct: (target, args, self) => Reflect.construct(target, args.length > 0 ? args : [target.now()], self),
});

function read(file) {
  try {
    return readFileSync(file, 'utf8').trim();
  } catch {
    return '';
  }
}

function disturb() {
  process.env.SHOAL_FAULT = read('fault');
  offsetMs = Number(read('clock'));
}

disturb();
process.on('SIGUSR2', disturb);
