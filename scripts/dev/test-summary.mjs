/**
 * Counts the tests of a run. As a reporter of vitest it writes the counts as JSON to the file that SHOAL_TEST_COUNTS
 * names; `summarize` formats them as the last line. Vitest's own JSON report does not distinguish a test that is
 * skipped on purpose from one that never ran because the set-up of its suite failed.
 */
import { writeFileSync } from 'node:fs';

export default class CountingReporter {
  onTestRunEnd(modules) {
    const file = process.env.SHOAL_TEST_COUNTS;
    if (file) writeFileSync(file, JSON.stringify(countTests(modules)));
  }
}

function countTests(modules) {
  const count = { passed: 0, failed: 0, skipped: 0 };
  for (const module of modules) countSuite(module, false, count);
  return count;
}

/** @returns how many tests of the suite did not run although they should have */
function countSuite(suite, parentFailed, count) {
  // The errors of a suite are those of its hooks, those of a module also of its import.
  const ownFailure = suite.errors().length > 0;
  const failed = ownFailure || parentFailed;
  let unrun = 0;
  for (const child of suite.children.array()) {
    if (child.type === 'suite') {
      unrun += countSuite(child, failed, count);
      continue;
    }
    const { state } = child.result();
    const onPurpose = child.options.mode === 'skip' || child.options.mode === 'todo' || !failed;
    if (state === 'passed') count.passed++;
    else if (state === 'skipped' && onPurpose) count.skipped++;
    else {
      // Also a test that is pending at the end: its process has crashed.
      count.failed++;
      if (state !== 'failed') unrun++;
    }
  }
  // A file without tests that fails to load, or a hook that fails after the tests, has no test to count.
  if (ownFailure && unrun === 0) count.failed++;
  return unrun;
}

/**
 * @param {{ passed: number, failed: number, skipped: number } | undefined} counts undefined when vitest wrote none
 * @param {number} exitCode vitest's
 */
export function summarize(counts, exitCode) {
  const { passed, skipped, failed } = counts ?? { passed: 0, failed: 0, skipped: 0 };
  // Vitest also fails for errors outside of tests, such as an unhandled rejection: the line must not look clean then.
  const failures = exitCode !== 0 && failed === 0 ? 1 : failed;
  const rest = skipped > 0 ? `, ${skipped} skipped` : '';
  return { passed, failed: failures, skipped, line: `${passed} passed, ${failures} failed${rest}` };
}
