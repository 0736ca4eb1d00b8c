/** `shoal checkpoint pull`: copies a checkpoint into a local directory that TensorFlow can read. */
import { resolve } from 'node:path';
import { requireDirectory } from '../../../../base/files/directories.js';
import { bytes, count } from '../../../../base/text/format.js';
import { pullCheckpoint } from '../../../../distributed/checkpoint/directory/transfer.js';
import { chooseOne } from '../../checkpoint/choose.js';
import { withStore } from '../../checkpoint/command.js';
import type { ShoalContext } from '../../context.js';
import type { PullFlags } from './command.js';

export async function runPull(
  this: ShoalContext,
  flags: PullFlags,
  name: string,
  directory: string,
): Promise<void> {
  requireDirectory(resolve(directory), 'dir');
  await withStore(this, flags, async ({ open, signal, bar, onNotice, answer }) => {
    const { job, manifest } = await chooseOne(open, name, { signal, onNotice });
    bar.label(`pulling ${manifest.prefix}`);
    const path = await pullCheckpoint(open.store, job, manifest, resolve(directory), {
      signal,
      onProgress: bar.update,
      log: onNotice,
    });
    const size = manifest.files.reduce((sum, file) => sum + file.size, 0);
    const files = manifest.files.map(({ file }) => file);
    answer({ job, name: manifest.prefix, path, bytes: size, files }, () => [
      `${path}: ${count(files.length, 'file')}, ${bytes(size)}, verified`,
    ]);
  });
}
