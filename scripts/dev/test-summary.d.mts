/** Types of test-summary.mjs, for its test. */

export interface TestCounts {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
}

export interface TestSummary extends TestCounts {
  readonly line: string;
}

export function summarize(counts: TestCounts | undefined, exitCode: number): TestSummary;
