/** Replaces settings of a job for one run: what `--last-step` and `--set name=value` request. */
import { ShoalError } from '../../../base/errors/errors.js';
import type { JobDefinition, JobParams } from './define-job.js';

export interface JobOverrides {
  readonly lastStep?: number;
  /** Assignments such as `rate=0.1`. */
  readonly set?: readonly string[];
}

export function overrideJob(job: JobDefinition, { lastStep, set = [] }: JobOverrides): JobDefinition {
  const declared = job.params ?? {};
  const params = Object.fromEntries(set.map((assignment) => parse(job.name, declared, assignment)));
  return {
    ...job,
    ...(set.length > 0 && { params: { ...declared, ...params } }),
    ...(lastStep !== undefined && { train: { ...job.train, lastStep } }),
  };
}

function parse(job: string, declared: JobParams, assignment: string): readonly [string, JobParams[string]] {
  const at = assignment.indexOf('=');
  const [name, text] = [assignment.slice(0, at), assignment.slice(at + 1)];
  if (at < 1) throw invalidSetting(`--set ${assignment} has no value`, 'write --set name=value');
  if (!Object.hasOwn(declared, name)) {
    const names = Object.keys(declared);
    throw invalidSetting(
      `--set ${assignment}: job ${job} has no parameter ${name}`,
      names.length === 0
        ? `declare it in the job: params: { ${name}: … }`
        : `its parameters are ${names.join(', ')}`,
    );
  }
  const value = parseValue(text, typeof declared[name]);
  if (value !== undefined) return [name, value];
  throw invalidSetting(
    `--set ${assignment}: ${name} is a ${typeof declared[name]}, not ${JSON.stringify(text)}`,
    `its default is ${JSON.stringify(declared[name])}`,
  );
}

/** The value in the type of the parameter's default; undefined if the text has another type. */
function parseValue(text: string, type: string): JobParams[string] | undefined {
  if (type === 'string') return text;
  if (type === 'boolean') return text === 'true' ? true : text === 'false' ? false : undefined;
  return text.trim() !== '' && Number.isFinite(Number(text)) ? Number(text) : undefined;
}

const invalidSetting = (message: string, hint: string): ShoalError =>
  new ShoalError('SHOAL_CONFIG', message, { hint });
