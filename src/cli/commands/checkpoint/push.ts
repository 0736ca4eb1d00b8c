/** `shoal checkpoint push`: takes a checkpoint that lies in a directory into the store. */
import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { pushCheckpoint } from '../../../checkpoint/transfer.js';
import { isShoalError, ShoalError } from '../../../errors/errors.js';
import { latestCheckpoint } from '../../../train/checkpoints/latest-checkpoint.js';
import { type Work, withStore } from '../../checkpoint/command.js';
import { bytes, count } from '../../checkpoint/format.js';
import { summarize } from '../../checkpoint/health.js';
import type { ShoalContext } from '../../context.js';
import type { PushFlags } from './command.js';

export async function runPush(this: ShoalContext, flags: PushFlags, given: string): Promise<void> {
  const path = await checkpointAt(given);
  const push = async ({ open, signal, bar, answer }: Work) => {
    const job = await open.job(signal);
    bar.label(`pushing ${given}`);
    const manifest = await pushCheckpoint(open.store, job, path, { signal, onProgress: bar.update }).catch(
      (error: unknown) => {
        throw isShoalError(error, 'SHOAL_NOT_FOUND') ? noCheckpoint(given, error) : error;
      },
    );
    const summary = await summarize(open, job, manifest, { signal });
    answer(summary, () => [
      `${manifest.prefix} is the newest of ${job === '' ? open.label : `job ${job}`}: ` +
        `${count(manifest.tensors, 'tensor')}, ${bytes(summary.bytes)}, ${count(summary.copies, 'copy', 'copies')} of each shard`,
    ]);
  };
  await withStore(this, flags, push, { create: true });
}

/** A directory stands for the newest in it. */
async function checkpointAt(given: string): Promise<string> {
  const path = resolve(given.replace(/\.(index|meta|data-\d+-of-\d+)$/, ''));
  const info = await stat(path).catch(() => undefined);
  if (!info?.isDirectory()) return path;
  const newest = await latestCheckpoint(path);
  if (newest === undefined) throw noCheckpoint(given);
  return newest;
}

function noCheckpoint(given: string, cause?: unknown): ShoalError {
  return new ShoalError('SHOAL_NOT_FOUND', `there is no whole checkpoint ${given}`, {
    hint: 'give the path without an ending, such as logs/model.ckpt-500, or the directory of several',
    cause,
  });
}
