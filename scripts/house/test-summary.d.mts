/** Types of test-summary.mjs, for its test. */

export interface TestReport {
  readonly testResults?: readonly {
    readonly status: string;
    readonly assertionResults?: readonly { readonly status: string }[];
  }[];
}

export interface TestSummary {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  readonly line: string;
}

export function summarize(report: TestReport | undefined, exitCode: number): TestSummary;
