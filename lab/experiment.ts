/**
 * An experiment: a named program that uses a lab, and reports assertions and measurements. Each is one file in
 * experiments/, which exports it as `experiment`.
 */
import { readdir } from 'node:fs/promises';
import { describeError, invalid } from '../src/base/errors/errors.js';
import { Lab, type LabOptions } from './hosts/hosts.js';

export interface Flag {
  readonly type: 'string' | 'boolean';
  readonly description: string;
  readonly default?: string | boolean;
}

export type FlagValues = Readonly<Record<string, string | boolean | undefined>>;

export interface Needs {
  /** Isolated networks and disks; `waivable`: unless the user requests directories. */
  readonly isolation?: 'required' | 'waivable';
  /** Python TensorFlow, which reads what the experiment wrote. */
  readonly python?: true;
  /** Free bytes in the temp directory. */
  readonly diskBytes?: number | ((flags: FlagValues) => number);
}

export interface Context {
  readonly flags: FlagValues;
  /** Aborted on Ctrl-C. */
  readonly signal: AbortSignal;
  /** Creates a lab, which is disposed of at the end of the experiment at the latest. */
  lab(options: LabOptions): Promise<Lab>;
  /** Logs what happens next, or what was observed. */
  log(text: string): void;
  /** Asserts. After a failed assertion the experiment continues, and fails at the end. */
  check(name: string, held: boolean, detail?: string): boolean;
  /** Asserts that two values are equal as JSON. */
  equal(name: string, actual: unknown, expected: unknown): boolean;
  measure(name: string, value: number, unit: string): void;
}

export interface Experiment {
  readonly name: string;
  readonly description: string;
  readonly flags?: Readonly<Record<string, Flag>>;
  readonly needs?: Needs;
  run(ctx: Context): Promise<void>;
}

export type Report =
  | { readonly type: 'log'; readonly text: string }
  | { readonly type: 'check'; readonly name: string; readonly held: boolean; readonly detail?: string }
  | { readonly type: 'measure'; readonly name: string; readonly value: number; readonly unit: string }
  | Summary;

export interface Summary {
  readonly type: 'summary';
  readonly experiment: string;
  readonly held: boolean;
  readonly checks: number;
  readonly failed: readonly string[];
  readonly seconds: number;
}

export interface RunOptions {
  readonly flags?: FlagValues;
  readonly signal?: AbortSignal;
  readonly report: (report: Report) => void;
}

export async function runExperiment(experiment: Experiment, options: RunOptions): Promise<Summary> {
  const { report } = options;
  const start = performance.now();
  const labs: Lab[] = [];
  const failed: string[] = [];
  let checks = 0;
  const signal = options.signal ?? new AbortController().signal;
  const check = (name: string, held: boolean, detail?: string) => {
    checks++;
    if (!held) failed.push(name);
    report({ type: 'check', name, held, ...(detail === undefined ? {} : { detail }) });
    return held;
  };
  // On Ctrl-C the labs are disposed of first, which ends everything that the experiment waits for.
  const disposeAll = () => Promise.all(labs.map((lab) => lab.dispose()));
  const onAbort = () => void disposeAll().catch(() => {});
  signal.addEventListener('abort', onAbort, { once: true });
  const ctx: Context = {
    flags: withDefaults(experiment, options.flags),
    signal,
    lab: async (labOptions) => {
      const warn = (text: string) => report({ type: 'log', text });
      const lab = await Lab.create({ warn, ...labOptions });
      labs.push(lab);
      if (signal.aborted) await lab.dispose();
      return lab;
    },
    log: (text) => report({ type: 'log', text }),
    check,
    equal: (name, actual, expected) => {
      const [a, b] = [JSON.stringify(actual), JSON.stringify(expected)];
      return check(name, a === b, a === b ? a : `${a}, expected ${b}`);
    },
    measure: (name, value, unit) => report({ type: 'measure', name, value, unit }),
  };
  try {
    await experiment.run(ctx);
  } catch (error) {
    check('the experiment ran to its end', false, signal.aborted ? 'interrupted' : describeError(error));
  }
  try {
    await disposeAll();
  } catch (error) {
    check('the lab cleaned up', false, describeError(error));
  }
  signal.removeEventListener('abort', onAbort);
  const seconds = (performance.now() - start) / 1000;
  const held = failed.length === 0 && !signal.aborted;
  const summary: Summary = { type: 'summary', experiment: experiment.name, held, checks, failed, seconds };
  report(summary);
  return summary;
}

/** The flags of a run, with the defaults of those that were not given. */
export function withDefaults({ flags = {} }: Experiment, given: FlagValues = {}): FlagValues {
  const defaults = Object.entries(flags).map(([name, flag]) => [name, flag.default]);
  return { ...Object.fromEntries(defaults), ...given };
}

/** Formats a report as a line of text. */
export function formatReport(report: Report): string {
  switch (report.type) {
    case 'log':
      return `  ${report.text}`;
    case 'check':
      return `  ${report.held ? '✓' : '✗'} ${report.name}${report.detail ? ` (${report.detail})` : ''}`;
    case 'measure':
      return `  · ${report.name}: ${Number(report.value.toPrecision(4))} ${report.unit}`;
    case 'summary': {
      const all = `${report.checks} check${report.checks === 1 ? '' : 's'}`;
      const end = `in ${report.seconds.toFixed(1)} s`;
      if (report.held) return `${report.experiment}: ${all} held ${end}`;
      return `${report.experiment}: ${report.failed.length} of ${all} did not hold ${end}: ${report.failed.join('; ')}`;
    }
  }
}

/** The names of all experiments. */
export async function experimentNames(): Promise<string[]> {
  const files = await readdir(new URL('./experiments/', import.meta.url));
  return files
    .filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts'))
    .map((file) => file.slice(0, -3))
    .sort();
}

export async function loadExperiment(name: string): Promise<Experiment> {
  const names = await experimentNames();
  if (!names.includes(name)) {
    throw invalid(`there is no experiment "${name}"`, { hint: `choose one of ${names.join(', ')}` });
  }
  const { experiment } = (await import(`./experiments/${name}.ts`)) as { experiment: Experiment };
  return experiment;
}
