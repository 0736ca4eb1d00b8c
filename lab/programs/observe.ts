/**
 * Reports what a task of a lab job sees, as lines `event {…}` that lab/soak/task-log.ts parses: checkpoints of which the
 * task accepts a file, whose runs a ps executes, and steps of a worker that are lower than the one before. With
 * LAB_WITHOUT_FENCING=1 the task has no fencing.
 */

import type { JobDefinition } from '../../src/app/job/definition/define-job.js';
import { parseManifestBlob, stampOf } from '../../src/distributed/checkpoint/format/names.js';
import { BlobGuard, callerOf } from '../../src/distributed/cluster/agent/blobs/blob-access.js';
import type { TaskEvent } from '../soak/task-log.js';
import { observeRuns } from './observe-runs.js';
import { removeFencing } from './without-fencing.js';

const report = (event: TaskEvent) => process.stdout.write(`event ${JSON.stringify(event)}\n`);

export function observed(job: JobDefinition): JobDefinition {
  if (process.env.LAB_WITHOUT_FENCING === '1') removeFencing();
  observeRuns(report);
  const { recordWriter } = BlobGuard.prototype;
  BlobGuard.prototype.recordWriter = function (request, name) {
    recordWriter.call(this, request, name);
    const manifest = parseManifestBlob(name);
    const by = callerOf(request)?.from.incarnation;
    if (manifest && by !== undefined)
      report({ type: 'committed', step: manifest.step, sequence: manifest.sequence, by });
    const begun = /@([^/]+)\/[^/]+-(\d+)\.data-/.exec(name);
    const chief = begun && stampOf(begun[1] as string)?.incarnation;
    if (begun && chief) report({ type: 'begun', step: Number(begun[2]), by: chief });
  };
  let last = 0;
  const onStep = ({ step }: { readonly step: number }) => {
    if (step < last) report({ type: 'back', from: last, to: step });
    last = step;
  };
  return { ...job, callbacks: { onStep } };
}
