/** The exit codes, for help texts. */
import { EXIT } from '../../base/errors/exit-codes.js';

type Meanings = Readonly<Record<keyof typeof EXIT, string>>;

const MEANINGS: Meanings = {
  done: 'done',
  error: 'error',
  usage: 'wrong usage or configuration: it would fail again',
  retry:
    'start it again: preempted (SIGTERM), its port was in use, all workers were lost, no other task was there, or native calls hang',
  superseded: 'replaced by a newer process of the same task: do not start it again',
  interrupted: 'interrupted (SIGINT); the last step is saved if the job saves checkpoints',
};

/** `shoal run` is started again by its user: to it all signals are interrupts. */
const MEANINGS_FOR_RUN: Meanings = {
  ...MEANINGS,
  retry: 'start it again: a port was in use, all workers were lost, or native calls hang',
  interrupted: 'interrupted (SIGINT, SIGTERM, SIGHUP); the last step is saved if the job saves checkpoints',
};

const listed = (meanings: Meanings): string =>
  [
    'Exit codes:',
    ...Object.entries(meanings).map(
      ([name, meaning]) => `  ${String(EXIT[name as keyof typeof EXIT]).padEnd(3)}  ${meaning}`,
    ),
    '',
  ].join('\n');

/** Those of a task. */
export const EXIT_CODES = listed(MEANINGS);
export const RUN_EXIT_CODES = listed(MEANINGS_FOR_RUN);
