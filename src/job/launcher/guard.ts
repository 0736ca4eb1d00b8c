/**
 * Nothing outlives the launcher. Each task watches its channel to the launcher and dies with it; a task that
 * is stopped or stuck cannot watch anything. So a small shell holds the list of process groups, and when its
 * input ends, which the death of the launcher brings about however it dies, it kills what is still listed.
 */
import { type ChildProcess, spawn } from 'node:child_process';

const SCRIPT = `
trap '' INT TERM HUP
listed=
while read -r sign group; do
  case $sign in
    +) listed="$listed $group" ;;
    -) rest=
       for other in $listed; do [ "$other" = "$group" ] || rest="$rest $other"; done
       listed=$rest ;;
  esac
done
for group in $listed; do kill -KILL "-$group" 2>/dev/null; done
exit 0
`;

export class Guard {
  readonly #shell: ChildProcess;
  readonly #ended: Promise<void>;

  constructor() {
    // In a session of its own: Ctrl-C in a terminal goes to the whole group of the launcher.
    this.#shell = spawn('/bin/sh', ['-c', SCRIPT], { stdio: ['pipe', 'ignore', 'ignore'], detached: true });
    this.#ended = new Promise((done) => {
      this.#shell.once('exit', () => done());
      // Without a shell the tasks still watch their channels; a guard that was killed guards no more.
      this.#shell.once('error', () => done());
    });
    this.#shell.stdin?.on('error', () => {});
    this.#shell.unref();
  }

  watch(group: number): void {
    this.#shell.stdin?.write(`+ ${group}\n`);
  }

  release(group: number): void {
    this.#shell.stdin?.write(`- ${group}\n`);
  }

  async close(): Promise<void> {
    this.#shell.ref();
    this.#shell.stdin?.end();
    await this.#ended;
  }
}
