/** The state of a trial, in the file `trial.json` of its directory: it is replaced by one rename. */
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import * as v from 'valibot';
import { makeDirectorySync } from '../../../base/files/directories.js';
import { asJson, jsonNumber } from '../../../base/text/events.js';
import type { JobEvent, TrialReport } from '../../../base/text/job-event.js';
import { invalidSweep } from './trials.js';

const NAME = 'trial.json';

const NumberSchema = v.pipe(v.unknown(), v.transform(jsonNumber), v.number());
const Params = v.record(v.string(), v.union([v.string(), v.number(), v.boolean()]));

const Schema = v.object({
  trial: v.string(),
  params: Params,
  allParams: Params,
  /** The last step of the job. */
  lastStep: v.number(),
  state: v.picklist(['waiting', 'running', 'done', 'failed', 'stopped']),
  dir: v.string(),
  starts: v.number(),
  step: v.optional(v.number()),
  loss: v.optional(v.union([v.number(), v.nan(), NumberSchema])),
  metrics: v.optional(v.record(v.string(), v.union([v.number(), v.nan(), NumberSchema]))),
  outputs: v.optional(v.record(v.string(), v.unknown())),
  exported: v.optional(v.string()),
  seconds: v.number(),
  exitCode: v.optional(v.nullable(v.number())),
  error: v.optional(v.object({ code: v.optional(v.string()), message: v.string() })),
});

/** What the file contains. */
export type TrialState = v.InferOutput<typeof Schema>;

/** The state of a trial in this directory; undefined if it was never started. */
export function readTrial(dir: string): TrialState | undefined {
  const path = join(dir, NAME);
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
  const parsed = v.safeParse(v.pipe(v.string(), v.parseJson(), Schema), text);
  if (parsed.success) return parsed.output;
  throw invalidSweep(
    `${path} is damaged`,
    'remove it: the trial resumes from its checkpoints, if it has some',
  );
}

export function writeTrial(state: TrialState): void {
  makeDirectorySync(state.dir);
  const draft = join(state.dir, `.${NAME}.${process.pid}`);
  writeFileSync(draft, `${JSON.stringify(state, asJson, 2)}\n`);
  renameSync(draft, join(state.dir, NAME));
}

/** The state without what only the file needs. */
export function reportOf({ allParams: _, lastStep: __, ...report }: TrialState): TrialReport {
  return report;
}

const numbersOf = (given: object): Record<string, number> =>
  Object.fromEntries(Object.entries(given).map(([name, value]) => [name, jsonNumber(value) ?? Number.NaN]));

/** The state after an event of the trial's job. */
export function afterEvent(state: TrialState, event: JobEvent): TrialState {
  switch (event.event) {
    case 'progress':
      return event.step === undefined ? state : { ...state, step: event.step };
    case 'step':
      return { ...state, step: event.step, loss: jsonNumber(event.loss), ...outputsOf(event) };
    case 'evaluation':
      return { ...state, metrics: numbersOf(event.metrics) };
    case 'export':
      return { ...state, exported: event.path };
    case 'error':
      return { ...state, error: { code: event.code, message: event.message } };
    case 'end': {
      // Of the other workers the chief's is not known.
      if (event.task !== 'worker 0') return state;
      const { step, loss, evaluation, exported } = event;
      return {
        ...state,
        step,
        ...(loss !== undefined && { loss: jsonNumber(loss) }),
        ...(evaluation && { metrics: numbersOf(evaluation) }),
        ...(exported !== undefined && { exported }),
        ...outputsOf(event),
      };
    }
    default:
      return state;
  }
}

const outputsOf = ({ outputs }: { readonly outputs?: Readonly<Record<string, unknown>> | undefined }) =>
  outputs && Object.keys(outputs).length > 0 ? { outputs: { ...outputs } } : {};
