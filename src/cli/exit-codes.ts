/** The exit codes, for help texts. */
import { EXIT } from '../errors/exit-codes.js';

const MEANINGS: Readonly<Record<keyof typeof EXIT, string>> = {
  done: 'done',
  error: 'error',
  usage: 'wrong usage or configuration: it would fail again',
  retry:
    'start it again: preempted (SIGTERM), its port was in use, all workers were lost, no other task was there, or native calls hang',
  superseded: 'replaced by a newer process of the same task: do not start it again',
  interrupted: 'interrupted (SIGINT); the last step is saved if the job saves checkpoints',
};

export const EXIT_CODES = [
  'Exit codes:',
  ...Object.entries(MEANINGS).map(
    ([name, meaning]) => `  ${String(EXIT[name as keyof typeof EXIT]).padEnd(3)}  ${meaning}`,
  ),
  '',
].join('\n');
