/** `shoal checkpoint verify`: reads every copy and reports the damaged ones. */
import {
  damagedCopies,
  isGood,
  isSound,
  lostFiles,
  type VerifyReport,
  verifyCheckpoint,
} from '../../../checkpoint/verify.js';
import { chooseSome } from '../../checkpoint/choose.js';
import { withStore } from '../../checkpoint/command.js';
import { bytes, count } from '../../checkpoint/format.js';
import type { OpenStore } from '../../checkpoint/open.js';
import type { ShoalContext } from '../../context.js';
import type { VerifyFlags } from './command.js';

export async function runVerify(this: ShoalContext, flags: VerifyFlags, name?: string): Promise<void> {
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
      () => done.flatMap((report) => lines(open, report)),
    );
    return done;
  });
  if (!reports.every(isSound)) this.process.exitCode = 1;
}

function plain(job: string, report: VerifyReport) {
  const { manifest, files, manifestCopies, problems } = report;
  return {
    job,
    name: manifest.prefix,
    attempt: manifest.attempt,
    sound: isSound(report),
    files: [...files, { file: 'manifest', size: undefined, copies: manifestCopies }].map((one) => ({
      file: one.file,
      bytes: one.size,
      copies: one.copies.map((copy) => ({ place: copy.place, good: isGood(copy), problem: copy.problem })),
    })),
    lost: lostFiles(report),
    problems,
  };
}

function lines(open: OpenStore, report: VerifyReport): readonly string[] {
  const { manifest, files, problems, bytesRead } = report;
  const copies = files.reduce((sum, file) => sum + file.copies.length, 0);
  const damaged = damagedCopies(report);
  const read = `${count(files.length, 'file')} in ${count(copies, 'copy', 'copies')}, ${bytes(bytesRead)}`;
  if (isSound(report)) return [`${manifest.prefix}: no damage found (${read})`];
  const lost = lostFiles(report);
  return [
    `${manifest.prefix}: ${damaged.length > 0 ? `${count(damaged.length, 'copy is', 'copies are')} damaged` : 'incomplete'} (${read})`,
    ...damaged.map(({ file, place, problem }) => `  ${file} at ${open.describe(place)} ${problem}`),
    ...lost.map((file) => `  ${file} has no undamaged copy`),
    ...problems.map((problem) => `  ${problem}`),
    lost.length === 0 && problems.length === 0
      ? `  to repair it: shoal checkpoint repair ${manifest.prefix}`
      : '  start other tasks that may hold copies, or use another checkpoint',
  ];
}
