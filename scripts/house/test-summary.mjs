/** The last line of a test run, counted from vitest's JSON report. */

/**
 * @param {object | undefined} report vitest's JSON report; undefined when it wrote none
 * @param {number} exitCode vitest's
 */
export function summarize(report, exitCode) {
  const count = { passed: 0, failed: 0, skipped: 0 };
  for (const file of report?.testResults ?? []) {
    const tests = file.assertionResults ?? [];
    for (const { status } of tests) {
      if (status === 'passed') count.passed++;
      else if (status === 'failed') count.failed++;
      else count.skipped++;
    }
    // A file that could not even be loaded, or whose set-up failed, has no failed test of its own.
    if (file.status === 'failed' && !tests.some(({ status }) => status === 'failed')) count.failed++;
  }
  // Vitest also fails for what belongs to no test, such as an unhandled rejection: never print a clean line then.
  if (exitCode !== 0 && count.failed === 0) count.failed = 1;
  const skipped = count.skipped > 0 ? `, ${count.skipped} skipped` : '';
  return { ...count, line: `${count.passed} passed, ${count.failed} failed${skipped}` };
}
