/** The findings of `shoal doctor`: one per check. */

/** `problem`: Shoal cannot run here. `warning`: it can, but something is missing or misconfigured. */
export type FindingStatus = 'ok' | 'warning' | 'problem';

export interface Finding {
  readonly name: string;
  readonly status: FindingStatus;
  /** The finding in one line. */
  readonly summary: string;
  /** How to fix it; set whenever the status is not `ok`. */
  readonly fix?: string;
  /** The underlying values, for scripts. */
  readonly details: Readonly<Record<string, unknown>>;
}

export interface Diagnosis {
  /** True if no finding is a problem. */
  readonly usable: boolean;
  readonly findings: readonly Finding[];
}

export function ok(name: string, summary: string, details: Finding['details'] = {}): Finding {
  return { name, status: 'ok', summary, details };
}

export function warning(
  name: string,
  summary: string,
  fix: string,
  details: Finding['details'] = {},
): Finding {
  return { name, status: 'warning', summary, fix, details };
}

export function problem(
  name: string,
  summary: string,
  fix: string,
  details: Finding['details'] = {},
): Finding {
  return { name, status: 'problem', summary, fix, details };
}
