/** `shoal checkpoint rm`: removes one checkpoint; the newest only with --force. */
import { createInterface } from 'node:readline/promises';
import { ShoalError } from '../../../../base/errors/errors.js';
import { bytes } from '../../../../base/text/format.js';
import type { Manifest } from '../../../../distributed/checkpoint/format/manifest.js';
import { removeCheckpoint } from '../../../../distributed/checkpoint/reading/catalog.js';
import { chooseOne } from '../../checkpoint/choose.js';
import { withStore } from '../../checkpoint/command.js';
import type { ShoalContext } from '../../context.js';
import type { RmFlags } from './command.js';

export async function runRm(this: ShoalContext, flags: RmFlags, name: string): Promise<void> {
  await withStore(this, flags, async ({ open, signal, onNotice, answer }) => {
    const { job, manifest, all } = await chooseOne(open, name, { signal, onNotice });
    if (all[0] === manifest && !flags.force) {
      throw new ShoalError('SHOAL_FORBIDDEN', `${manifest.prefix} is the newest checkpoint`, {
        hint: `training since ${all[1] ? all[1].prefix : 'the start'} would be lost; pass --force to remove it anyway`,
      });
    }
    if (!flags.yes) await confirm(manifest, signal);
    await removeCheckpoint(open.store, job, manifest, { signal });
    answer({ job, name: manifest.prefix, attempt: manifest.attempt, removed: true }, () => [
      `removed ${manifest.prefix}`,
    ]);
  });
}

async function confirm({ prefix, files }: Manifest, signal: AbortSignal): Promise<void> {
  const { stdin, stderr } = process;
  if (stdin.isTTY !== true) {
    throw new ShoalError('SHOAL_CONFIG', `removing ${prefix} needs a confirmation`, { hint: 'pass --yes' });
  }
  const size = files.reduce((sum, file) => sum + file.size, 0);
  const ask = createInterface({ input: stdin, output: stderr });
  try {
    const answer = await ask.question(`Remove all copies of ${prefix} (${bytes(size)})? [y/N] `, { signal });
    if (!/^y(es)?$/i.test(answer.trim())) throw new ShoalError('SHOAL_ABORTED', `${prefix} was not removed`);
  } finally {
    ask.close();
  }
}
