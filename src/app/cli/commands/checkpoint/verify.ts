/** `shoal checkpoint verify`: reads every copy and reports the damaged ones. */

import { bytes, count } from '../../../../base/text/format.js';
import {
  bundleProblems,
  damagedCopies,
  isGood,
  isUndamaged,
  lostFiles,
  type VerifyReport,
  verifyCheckpoint,
} from '../../../../distributed/checkpoint/maintenance/verify.js';
import { chooseSome } from '../../checkpoint/choose.js';
import { type Terminal, withStore, withTerminal } from '../../checkpoint/command.js';
import { isPath, type LocalCheckpoint, withLocalCheckpoint } from '../../checkpoint/local-checkpoint.js';
import type { OpenStore } from '../../checkpoint/open.js';
import type { ShoalContext } from '../../context.js';
import type { VerifyFlags } from './command.js';

export async function runVerify(this: ShoalContext, flags: VerifyFlags, name?: string): Promise<void> {
  if (isPath(name)) {
    const isOk = await withTerminal(this, flags, (terminal) =>
      withLocalCheckpoint(name, flags, (checkpoint) => verifyLocal(terminal, checkpoint)),
    );
    if (!isOk) this.process.exitCode = 1;
    return;
  }
  const reports = await withStore(this, flags, async ({ open, signal, bar, onNotice, answer }) => {
    const { job, manifests } = await chooseSome(open, name, flags.all, { signal, onNotice });
    const done: VerifyReport[] = [];
    for (const manifest of manifests) {
      bar.label(`verifying ${manifest.prefix}`);
      const options = { signal, quick: flags.quick, onProgress: bar.update };
      done.push(await verifyCheckpoint(open.store, job, manifest, options));
    }
    answer(
      done.map((report) => plain(job, report)),
      () => done.flatMap((report) => lines(open, report, flags.job)),
    );
    return done;
  });
  if (!reports.every(isUndamaged)) this.process.exitCode = 1;
}

/** A checkpoint on the local disk, without a store: TensorFlow's checksums are all there is to compare with. */
async function verifyLocal(terminal: Terminal, { path, bundle, files }: LocalCheckpoint): Promise<boolean> {
  const { signal, bar, answer } = terminal;
  const tensors = [...bundle.index.tensors.values()];
  const sizes = tensors.flatMap(({ pieces }) => pieces.map(({ size }) => size));
  const total = sizes.reduce((sum, size) => sum + size, 0);
  const lost = files.filter((one) => one.bytes === undefined).map(({ file }) => file);
  let done = 0;
  const onBytes = (size: number) => {
    done += size;
    bar.update(done, total);
  };
  bar.label(`verifying ${path}`);
  // Without a file, every tensor in it would be reported.
  const problems = lost.length > 0 ? [] : await bundleProblems(bundle, { signal, onBytes });
  const isOk = lost.length === 0 && problems.length === 0;
  const read = `${count(files.length, 'file')}, ${count(tensors.length, 'tensor')}, ${bytes(total)}`;
  answer({ path, ok: isOk, files, lostFiles: lost, problems }, () => [
    `${path}: ${isOk ? 'no damage found' : lost.length > 0 ? 'incomplete' : 'damaged'} (${read})`,
    ...lost.map((file) => `  ${file} is missing`),
    ...problems.map((problem) => `  ${problem}`),
    ...(lost.length > 0
      ? ['  files of a cluster’s checkpoint are on other tasks: shoal checkpoint pull latest DIR']
      : []),
  ]);
  return isOk;
}

function plain(job: string, report: VerifyReport) {
  const { manifest, files, manifestCopies, problems } = report;
  return {
    job,
    name: manifest.prefix,
    attempt: manifest.attempt,
    ok: isUndamaged(report),
    files: [...files, { file: 'manifest', size: undefined, copies: manifestCopies }].map((one) => ({
      file: one.file,
      bytes: one.size,
      copies: one.copies.map((copy) => ({ place: copy.place, ok: isGood(copy), problem: copy.problem })),
    })),
    lostFiles: lostFiles(report),
    problems,
  };
}

/** `job`: the one that the user named. */
function lines(open: OpenStore, report: VerifyReport, job: string | undefined): readonly string[] {
  const { manifest, files, problems, bytesRead } = report;
  const copies = files.reduce((sum, file) => sum + file.copies.length, 0);
  const damaged = damagedCopies(report);
  const read = `${count(files.length, 'file')} in ${count(copies, 'copy', 'copies')}, ${bytes(bytesRead)}`;
  if (isUndamaged(report)) return [`${manifest.prefix}: no damage found (${read})`];
  const lost = lostFiles(report);
  return [
    `${manifest.prefix}: ${damaged.length > 0 ? `${count(damaged.length, 'copy is', 'copies are')} damaged` : 'incomplete'} (${read})`,
    ...damaged.map(({ file, place, problem }) => `  ${file} at ${open.describe(place)} ${problem}`),
    ...lost.map((file) => `  ${file} has no undamaged copy`),
    ...problems.map((problem) => `  ${problem}`),
    lost.length === 0 && problems.length === 0
      ? `  to repair it: shoal checkpoint repair ${manifest.prefix}${job === undefined ? '' : ` --job ${job}`}`
      : '  start other tasks that may hold copies, or use another checkpoint',
  ];
}
