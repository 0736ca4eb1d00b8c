/** Checks events against docs/events.schema.json. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { expect } from 'vitest';
import type { JobEvent } from '../../src/base/text/job-event.js';
import { ROOT } from '../setup/run-setup.js';

export const EVENT_SCHEMA = JSON.parse(readFileSync(join(ROOT, 'docs/events.schema.json'), 'utf8'));

// Later releases may add fields; this one has none that the schema does not describe.
const validate = new Ajv2020({ strict: true, strictRequired: false, allowUnionTypes: true }).compile({
  ...EVENT_SCHEMA,
  unevaluatedProperties: false,
});

export function expectEvent(value: unknown): asserts value is JobEvent {
  const isValid = validate(value);
  expect(isValid, `${JSON.stringify(value)}\n${JSON.stringify(validate.errors, null, 2)}`).toBe(true);
}

/** The events of an output, each line of which must be one. */
export function eventsIn(stdout: string): readonly JobEvent[] {
  const lines = stdout.split('\n');
  expect(lines.pop(), 'the last line ends with a newline').toBe('');
  return lines.map((line) => {
    let event: unknown;
    try {
      event = JSON.parse(line);
    } catch {
      throw new Error(`not JSON: ${line}`);
    }
    expectEvent(event);
    return event;
  });
}

/** The events with this name. */
export const only = <K extends JobEvent['event']>(events: readonly JobEvent[], name: K) =>
  events.filter((one): one is Extract<JobEvent, { readonly event: K }> => one.event === name);
