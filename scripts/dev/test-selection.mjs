/**
 * Which tests `npm test` runs: the quick project of vitest.config.ts, unless the arguments name something. `--slow` is the
 * rest, `--all` is both.
 */

const PROJECTS = { '--slow': ['--project=slow'], '--all': [] };
/** Options of vitest that say what to run; a named test may be in either project. */
const CHOICE = /^(?:-t|--testNamePattern|--project|--changed)(?:=|$)/;

/** The arguments of `npm test` as vitest's. */
export function selectTests(args) {
  const group = Object.keys(PROJECTS).find((name) => args.includes(name));
  const others = args.filter((arg) => !(arg in PROJECTS));
  if (group) return [...PROJECTS[group], ...others];
  return others.some((arg, i) => namesTests(arg, others[i - 1])) ? others : ['--project=quick', ...others];
}

function namesTests(arg, before = '') {
  if (arg.startsWith('-')) return CHOICE.test(arg);
  // `--reporter verbose`: a word after an option is its value, unless it looks like a path.
  const isValue = before.startsWith('-') && !before.includes('=') && !/[/.]/.test(arg);
  return !isValue;
}
