/**
 * Kills all tasks when the launcher dies. Each task watches its channel to the launcher and exits with it, but a task
 * that is stopped or blocked cannot. So a small shell keeps the list of process groups. When its input ends, which
 * happens however the launcher dies, it kills the groups that are still listed.
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
    // In its own session: Ctrl-C in a terminal signals every process in the launcher's group.
    this.#shell = spawn('/bin/sh', ['-c', SCRIPT], { stdio: ['pipe', 'ignore', 'ignore'], detached: true });
    this.#ended = new Promise((done) => {
      this.#shell.once('exit', () => done());
      // Without a shell the tasks still watch their channels.
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
