/** `shoal export`: exports a checkpoint of a job as a SavedModel. */
import { basename, dirname, resolve } from 'node:path';
import { bytes } from '../../../../base/text/format.js';
import { VerifiedReader } from '../../../../distributed/checkpoint/reading/verified-reader.js';
import { DirectoryReader } from '../../../../tensorflow/formats/range-reader.js';
import { BundleReader } from '../../../../tensorflow/formats/tensor-bundle/bundle-reader.js';
import { checkpointVariables } from '../../../../training/saved-model/variables/checkpoint-variables.js';
import { checkVacant } from '../../../../training/saved-model/writing/staging.js';
import { findCheckpoint } from '../../../../training/train/checkpoints/latest-checkpoint.js';
import type { JobDefinition } from '../../../job/definition/define-job.js';
import { overrideJob } from '../../../job/definition/override-job.js';
import { exportModel } from '../../../job/results/exporting.js';
import { chooseOne } from '../../checkpoint/choose.js';
import { type Terminal, withStore, withTerminal } from '../../checkpoint/command.js';
import type { PlaceFlags } from '../../checkpoint/flags.js';
import { isPath } from '../../checkpoint/local-checkpoint.js';
import type { ShoalContext } from '../../context.js';
import { loadJob } from '../../job/load-job.js';
import type { ExportFlags } from './command.js';

export async function runExport(this: ShoalContext, flags: ExportFlags, file: string): Promise<void> {
  const job = overrideJob(await loadJob(file, this.rest), { set: flags.set });
  const target = resolve(flags.out);
  await checkVacant(target);
  if (isPath(flags.checkpoint)) {
    return withTerminal(this, flags, async (terminal) => {
      const path = await findCheckpoint(resolve(flags.checkpoint));
      await using files = new DirectoryReader(dirname(path));
      await write(job, await BundleReader.open(files, basename(path)), target, terminal);
    });
  }
  await withStore(this, placeOf(job, flags), async ({ open, ...terminal }) => {
    const { signal, onNotice } = terminal;
    const chosen = await chooseOne(open, flags.checkpoint, { signal, onNotice });
    const { manifest } = chosen;
    const reader = new VerifiedReader(open.store, manifest, {
      namespace: chosen.job,
      signal,
      onDamage: onNotice,
    });
    try {
      await write(job, await BundleReader.open(reader, manifest.prefix), target, terminal);
    } finally {
      reader.close();
    }
  });
}

/** The flags, with the job's own store as the default. */
function placeOf({ name, train }: JobDefinition, flags: ExportFlags): PlaceFlags {
  const isGiven = [flags.agent, flags.dir, flags.dirs, flags.store].some((flag) => flag !== undefined);
  const store = train.checkpoint?.store;
  if (!isGiven && store?.startsWith('file:')) return { ...flags, store, job: '' };
  return flags.store === undefined ? { ...flags, job: name } : flags;
}

async function write(
  job: JobDefinition,
  bundle: BundleReader,
  target: string,
  { bar, signal, answer, onNotice }: Terminal,
): Promise<void> {
  const step = await stepOf(bundle);
  bar.label(`exporting ${bundle.prefix}`);
  let size = 0;
  const onProgress = (done: number, total: number) => {
    size = total;
    bar.update(done, total);
  };
  const path = await exportModel(job, {
    source: checkpointVariables(bundle, { onProgress }),
    target,
    origin: { step, by: 'command' },
    signal,
    onWarning: onNotice,
  });
  answer({ job: job.name, checkpoint: bundle.prefix, step, path, bytes: size }, () => [
    `${path}: step ${step} of job ${job.name}, ${bytes(size)} of variables`,
    `next: shoal saved-model show ${quoted(path)}`,
  ]);
}

const quoted = (path: string): string => (/\s/.test(path) ? JSON.stringify(path) : path);

async function stepOf(bundle: BundleReader): Promise<number> {
  if (!bundle.index.tensors.has('global_step')) return 0;
  const value = Buffer.from(await bundle.read<Uint8Array>('global_step'));
  return value.byteLength === 8 ? Number(value.readBigInt64LE()) : 0;
}
