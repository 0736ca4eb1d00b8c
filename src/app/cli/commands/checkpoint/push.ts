/** `shoal checkpoint push`: imports a checkpoint from a local directory into the store. */
import { resolve } from 'node:path';
import { isShoalError, ShoalError } from '../../../../base/errors/errors.js';
import { bytes, count } from '../../../../base/text/format.js';
import { pushCheckpoint } from '../../../../distributed/checkpoint/directory/transfer.js';
import { findCheckpoint } from '../../../../training/train/checkpoints/latest-checkpoint.js';
import { type CheckpointWork, withStore } from '../../checkpoint/command.js';
import { summarize } from '../../checkpoint/health.js';
import type { ShoalContext } from '../../context.js';
import type { PushFlags } from './command.js';

export async function runPush(this: ShoalContext, flags: PushFlags, input: string): Promise<void> {
  const path = await checkpointAt(input);
  const push = async ({ open, signal, bar, answer }: CheckpointWork) => {
    const job = await open.job(signal);
    bar.label(`pushing ${input}`);
    const manifest = await pushCheckpoint(open.store, job, path, { signal, onProgress: bar.update }).catch(
      (error: unknown) => {
        throw isShoalError(error, 'SHOAL_NOT_FOUND') ? noCheckpoint(input, error) : error;
      },
    );
    const summary = await summarize(open, job, manifest, { signal });
    answer(summary, () => [
      `${manifest.prefix} is now the newest checkpoint of ${job === '' ? open.label : `job ${job}`}: ` +
        `${count(manifest.tensors, 'tensor')}, ${bytes(summary.bytes)}, ${count(summary.copies, 'copy', 'copies')} of each shard`,
    ]);
  };
  await withStore(this, flags, push, { create: true });
}

async function checkpointAt(input: string): Promise<string> {
  return findCheckpoint(resolve(input)).catch((error: unknown) => {
    throw isShoalError(error, 'SHOAL_NOT_FOUND') ? noCheckpoint(input, error) : error;
  });
}

function noCheckpoint(input: string, cause?: unknown): ShoalError {
  return new ShoalError('SHOAL_NOT_FOUND', `there is no complete checkpoint ${input}`, {
    hint: 'pass the path without an extension, such as logs/model.ckpt-500, or a directory of checkpoints',
    cause,
  });
}
