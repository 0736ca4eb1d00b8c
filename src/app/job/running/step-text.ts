/** How log lines show the global step. Steps have no thousands separators: they are part of the names of checkpoints. */

/**
 * `step 7 of 10`. Workers train concurrently: each makes the step that it has begun when another makes the last one, so
 * that training may end some steps after the last.
 */
export function stepOf(step: number, lastStep: number | undefined): string {
  if (lastStep === undefined) return `step ${step}`;
  const beyond = step > lastStep ? ` (+${step - lastStep} in flight)` : '';
  return `step ${Math.min(step, lastStep)} of ${lastStep}${beyond}`;
}
