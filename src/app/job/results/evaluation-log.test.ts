import { expect, test } from 'vitest';
import { ShoalError } from '../../../base/errors/errors.js';
import { MemoryStore } from '../../../distributed/store/memory-store.js';
import { defineJob } from '../definition/define-job.js';
import { EvaluationLog, readEvaluations } from './evaluation-log.js';

const job = defineJob({ name: 'line', model: () => ({}) as never, train: { lastStep: 10 } });

test('an evaluator keeps each note that the chief does not take, up to the last one', async () => {
  const place = { store: new MemoryStore(), namespace: '', job: 'line', note: 'evaluations' };
  const own = new MemoryStore();
  const lines: string[] = [];
  const send = async () => {
    throw new ShoalError('SHOAL_UNREACHABLE', 'the chief is not there');
  };
  using record = new EvaluationLog(job, { place, own, send, log: (line) => lines.push(line) });
  for (const [sequence, step] of [
    [1, 5],
    [2, 10],
  ] as const) {
    const checkpoint = { sequence, attempt: `a${sequence}` };
    await record.begin(checkpoint);
    await record.add({ step, results: { error: step }, checkpoint });
  }
  const kept = await readEvaluations({ ...place, store: own });
  expect(kept?.decisions.last).toMatchObject({ step: 10, results: { error: 10 } });
  expect(lines).toEqual([expect.stringMatching(/kept by this task until a chief records them/)]);
});
