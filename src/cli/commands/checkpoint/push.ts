/** `shoal checkpoint push`: imports a checkpoint from a local directory into the store. */
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

export async function runPush(this: ShoalContext, flags: PushFlags, input: string): Promise<void> {
  const path = await checkpointAt(input);
  const push = async ({ open, signal, bar, answer }: Work) => {
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

/** A directory means the newest checkpoint in it. */
async function checkpointAt(input: string): Promise<string> {
  const path = resolve(input.replace(/\.(index|meta|data-\d+-of-\d+)$/, ''));
  const info = await stat(path).catch(() => undefined);
  if (!info?.isDirectory()) return path;
  const newest = await latestCheckpoint(path);
  if (newest === undefined) throw noCheckpoint(input);
  return newest;
}

function noCheckpoint(input: string, cause?: unknown): ShoalError {
  return new ShoalError('SHOAL_NOT_FOUND', `there is no complete checkpoint ${input}`, {
    hint: 'pass the path without an extension, such as logs/model.ckpt-500, or a directory of checkpoints',
    cause,
  });
}
