/**
 * Checks the messages of new commits: the subject is imperative, has at most 72 characters, optionally an area in front
 * (`train: retry a save once`), and no full stop; an empty line divides it from the body.
 */
import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const SCRIPT = fileURLToPath(import.meta.url);
const LONGEST_SUBJECT = 72;
const AREA = /^[\w./-]+(, [\w./-]+)*: /;
/** Past tense and gerund, by their endings; verbs that end so themselves are imperative. */
const NOT_IMPERATIVE =
  /^(?!(?:embed|exceed|feed|need|proceed|seed|shed|speed|succeed|bring|ping|ring|string)$)\w+(?:ed|ing)$/i;

/** What is wrong with a message; empty if nothing is. */
export function problemsOf(message) {
  const [subject = '', separator = ''] = message.split('\n');
  const [verb = ''] = subject.replace(AREA, '').split(' ');
  return [
    subject.length > LONGEST_SUBJECT &&
      `the subject has ${subject.length} characters, more than ${LONGEST_SUBJECT}`,
    subject.endsWith('.') && 'the subject ends with a full stop',
    NOT_IMPERATIVE.test(verb) && `'${verb}' is not imperative`,
    separator.trim() !== '' && 'the second line is not empty',
  ].filter(Boolean);
}

/** The commits after the one that added this file, as far as this clone has them. */
function newCommits() {
  const git = (...args) =>
    execFileSync('git', ['-C', fileURLToPath(new URL('.', import.meta.url)), ...args], { encoding: 'utf8' });
  try {
    const [added] = git('log', '--format=%H', '--diff-filter=A', '--', SCRIPT).trim().split('\n');
    if (!added) return [];
    const log = git('log', '--no-merges', '--format=%h%n%B%x00', `${added}..HEAD`);
    return log
      .split('\0')
      .map((entry) => entry.trim())
      .filter(Boolean);
  } catch (error) {
    console.log(`no history to check: ${String(error.message).split('\n')[0]}`);
    return [];
  }
}

if (process.argv[1] === SCRIPT) {
  const commits = newCommits();
  const wrong = commits.flatMap((entry) => {
    const end = entry.indexOf('\n');
    const [id, message] = [entry.slice(0, end), entry.slice(end + 1)];
    return problemsOf(message).map((problem) => `${id} ${message.split('\n')[0]}\n  ${problem}`);
  });
  for (const line of wrong) console.error(line);
  console.log(`${commits.length} commit messages checked`);
  process.exitCode = wrong.length > 0 ? 1 : 0;
}
