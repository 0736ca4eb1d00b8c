/**
 * Which tests `npm test` runs; default: the quick projects of vitest.config.ts. `--slow` selects the slow projects,
 * `--all` both; `--pages` those of the pages, which run alone. Arguments that name tests search all.
 */

const QUICK = '--project=quick*';
const SLOW = '--project=slow*';
const PROJECTS = { '--slow': [SLOW], '--pages': ['--project=pages'], '--all': [QUICK, SLOW] };
/** Options of vitest that select tests; a named test may be in any project. */
const CHOICE = /^(?:-t|--testNamePattern|--project|--changed)(?:=|$)/;

/** Translates the arguments of `npm test` into those of vitest. */
export function selectTests(args) {
  const group = Object.keys(PROJECTS).find((name) => args.includes(name));
  const others = args.filter((arg) => !(arg in PROJECTS));
  if (group) return [...PROJECTS[group], ...others];
  return others.some((arg, i) => namesTests(arg, others[i - 1])) ? others : [QUICK, ...others];
}

function namesTests(arg, before = '') {
  if (arg.startsWith('-')) return CHOICE.test(arg);
  // `--reporter verbose`: a word after an option is its value, unless it looks like a path.
  const isValue = before.startsWith('-') && !before.includes('=') && !/[/.]/.test(arg);
  return !isValue;
}
