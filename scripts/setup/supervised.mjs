// Runs a program and its descendants, and ends them when the standard input of this process ends: its parent, which may
// have been killed, is gone. SIGTERM ends them too.
//
//   node scripts/setup/supervised.mjs COMMAND [ARGUMENT]...
//
// It exits like the program, with 127 if there is no such program.
import { spawn } from 'node:child_process';
import { constants } from 'node:os';

const KILL_AFTER_MS = 5_000;
const [command, ...args] = process.argv.slice(2);
// Its own process group: a killed program leaves its children behind.
const child = spawn(command, args, { stdio: ['ignore', 'inherit', 'inherit'], detached: true });

function end(name) {
  try {
    if (child.pid !== undefined) process.kill(-child.pid, name);
  } catch (error) {
    if (error.code !== 'ESRCH') throw error;
  }
}

child.on('error', (error) => {
  if (error.code !== 'ENOENT' && error.code !== 'EACCES') process.stderr.write(`${error.message}\n`);
  process.exit(error.code === 'ENOENT' || error.code === 'EACCES' ? 127 : 126);
});
child.on('exit', (code, killer) => process.exit(code ?? 128 + (constants.signals[killer] ?? 0)));
process.stdin.resume().on('close', () => {
  end('SIGKILL');
  process.exit(1);
});
process.on('SIGTERM', () => {
  end('SIGTERM');
  setTimeout(() => end('SIGKILL'), KILL_AFTER_MS);
});
// The parent decides what Ctrl-C and a closed terminal mean.
for (const name of ['SIGINT', 'SIGHUP']) process.on(name, () => {});
