/** `shoal checkpoint repair`: replaces damaged copies of checkpoints and creates missing ones. */

import { bytes, count } from '../../../../base/text/format.js';
import type { Manifest } from '../../../../distributed/checkpoint/format/manifest.js';
import {
  type RepairAction,
  type RepairReport,
  repairCheckpoint,
} from '../../../../distributed/checkpoint/maintenance/repair.js';
import { verifyCheckpoint } from '../../../../distributed/checkpoint/maintenance/verify.js';
import { chooseSome } from '../../checkpoint/choose.js';
import { withStore } from '../../checkpoint/command.js';
import { absentHolders } from '../../checkpoint/health.js';
import type { OpenStore } from '../../checkpoint/open.js';
import type { ShoalContext } from '../../context.js';
import type { RepairFlags } from './command.js';

export async function runRepair(this: ShoalContext, flags: RepairFlags, name?: string): Promise<void> {
  const { replicas, dryRun } = flags;
  const reports = await withStore(this, flags, async ({ open, signal, bar, onNotice, answer }) => {
    const { job, manifests, all } = await chooseSome(open, name, flags.all, { signal, onNotice });
    const members = open.membersAt(all[0]!);
    const done: RepairReport[] = [];
    for (const manifest of manifests) {
      bar.label(`verifying ${manifest.prefix}`);
      const found = await verifyCheckpoint(open.store, job, manifest, {
        signal,
        quick: true,
        onProgress: bar.update,
      });
      const report = await repairCheckpoint(open.store, job, found, {
        places: members,
        replicas,
        dryRun,
        signal,
        onAction: (action) => bar.label(`${action.type} ${action.file}`),
      });
      done.push(report);
    }
    answer(
      done.map((report) => plain(job, report)),
      () => done.flatMap((report) => lines(open, report, dryRun)),
    );
    return done;
  });
  if (!reports.every(isRepaired)) this.process.exitCode = 1;
}

const isRepaired = ({ lost, shortfall }: RepairReport): boolean => lost.length === 0 && shortfall === 0;

function plain(job: string, report: RepairReport) {
  const { manifest, actions, lost, shortfall } = report;
  return {
    job,
    name: manifest.prefix,
    attempt: manifest.attempt,
    repaired: isRepaired(report),
    actions,
    lostFiles: lost,
    missingCopies: shortfall,
  };
}

function describeLoss(open: OpenStore, { files }: Manifest, file: string): string {
  const entry = files.find((one) => one.file === file);
  const absent = entry ? absentHolders(open, entry) : [];
  return absent.length === 0
    ? 'is lost: no undamaged copy is reachable'
    : `cannot be repaired: its holders are not running (${absent.join(', ')})`;
}

const DONE = { replace: 'replaced', add: 'created', rebuild: 'rebuilt' } as const;

function lines(open: OpenStore, report: RepairReport, dryRun: boolean): readonly string[] {
  const { manifest, actions, lost, shortfall } = report;
  const describe = (action: RepairAction) => {
    const { type, file, place, failure, bytes: size } = action;
    const what = dryRun
      ? `would be ${DONE[type]}`
      : failure
        ? `could not be ${DONE[type]}`
        : `was ${DONE[type]}`;
    const why = failure ? `: ${failure}` : size > 0 ? ` (${bytes(size)})` : '';
    return `  the copy of ${file} at ${open.describe(place)} ${what}${why}`;
  };
  if (actions.length === 0 && isRepaired(report)) return [`${manifest.prefix}: nothing to repair`];
  const made = actions.filter(({ failure }) => failure === undefined).length;
  return [
    `${manifest.prefix}: ${count(made, 'copy', 'copies')} ${dryRun ? 'to create' : 'created'}`,
    ...actions.map(describe),
    ...lost.map((file) => `  ${file} ${describeLoss(open, manifest, file)}`),
    ...(shortfall > 0
      ? [`  ${count(shortfall, 'copy is', 'copies are')} still missing: no task could store more`]
      : []),
  ];
}
