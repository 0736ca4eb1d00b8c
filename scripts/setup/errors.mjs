/**
 * The error of set-up. It has one of Shoal's error codes, a more specific `reason` for tests and scripts, and a hint.
 * Plain JavaScript, because set-up runs before anything is installed.
 */

export class SetupError extends Error {
  /**
   * @param {string} code one of the SHOAL_* codes of src/base/errors
   * @param {string} reason what went wrong, in one word: 'no-pip', 'wrong-hash' …
   * @param {string} message what failed, and on what
   * @param {{ hint?: string, cause?: unknown }} [details]
   */
  constructor(code, reason, message, details = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.name = 'SetupError';
    this.code = code;
    this.reason = reason;
    this.hint = details.hint;
  }
}

/** The text of an error for a terminal. An unexpected error includes its stack. */
export function describeError(error) {
  if (!(error instanceof SetupError))
    return error instanceof Error ? (error.stack ?? error.message) : String(error);
  const hint = error.hint ? `\n  hint: ${error.hint}` : '';
  return `${error.code} (${error.reason}): ${error.message}${hint}`;
}

/** The exit code for an error: 130 for an interruption, as a shell expects, else 1. */
export function exitCodeOf(error) {
  return error instanceof SetupError && error.reason === 'interrupted' ? 130 : 1;
}
