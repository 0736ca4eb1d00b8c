import { expect, expectTypeOf, test } from 'vitest';
import { described } from '../../../../test/described.js';
import { defineJob } from './define-job.js';
import { overrideJob } from './override-job.js';

const JOB = defineJob({
  name: 'small',
  params: { rate: 0.01, units: 64, name: 'adam', deep: false },
  model: ({ params }) => {
    expectTypeOf(params).toEqualTypeOf<{
      readonly rate: number;
      readonly units: number;
      readonly name: string;
      readonly deep: boolean;
    }>();
    return {} as never;
  },
  train: { lastStep: 10 },
});

test('replaces the last step and the parameters, in the types of their defaults', () => {
  const { params, train } = overrideJob(JOB, {
    lastStep: 20,
    set: ['rate=1e-3', 'deep=true', 'name=a=b'],
  });
  expect(params).toEqual({ rate: 0.001, units: 64, name: 'a=b', deep: true });
  expect(train.lastStep).toBe(20);
  expect(JOB.params).toMatchObject({ rate: 0.01 });
});

test.each([
  ['speed=1', /no parameter speed\n.*its parameters are rate, units, name, deep/],
  ['rate=fast', /rate is a number, not "fast"\n.*its default is 0.01/],
  ['rate=', /rate is a number, not ""/],
  ['deep=1', /deep is a boolean, not "1"/],
  ['rate', /has no value\n.*--set name=value/],
])('rejects %s', (assignment, reason) => {
  expect(() => overrideJob(JOB, { set: [assignment] })).toThrow(described(reason));
});

test('the error for a job without parameters shows how to declare one', () => {
  const job = defineJob({ name: 'small', model: () => ({}) as never, train: { lastStep: 1 } });
  expect(() => overrideJob(job, { set: ['rate=1'] })).toThrow(
    described('declare it in the job: params: { rate: … }'),
  );
});
