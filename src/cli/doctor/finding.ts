/** What the doctor finds: one finding per subject. */

/** `problem`: Shoal cannot run here. `warning`: it can, but something is missing or poor. */
export type Status = 'ok' | 'warning' | 'problem';

export interface Finding {
  readonly name: string;
  readonly status: Status;
  /** The finding in a line. */
  readonly summary: string;
  /** How to mend it; always there when the status is not `ok`. */
  readonly mend?: string | undefined;
  /** The facts behind it, for scripts. */
  readonly details: Readonly<Record<string, unknown>>;
}

export interface Diagnosis {
  /** No finding is a problem. */
  readonly usable: boolean;
  readonly findings: readonly Finding[];
}

export function ok(name: string, summary: string, details: Finding['details'] = {}): Finding {
  return { name, status: 'ok', summary, details };
}

export function warning(
  name: string,
  summary: string,
  mend: string,
  details: Finding['details'] = {},
): Finding {
  return { name, status: 'warning', summary, mend, details };
}

export function problem(
  name: string,
  summary: string,
  mend: string,
  details: Finding['details'] = {},
): Finding {
  return { name, status: 'problem', summary, mend, details };
}
