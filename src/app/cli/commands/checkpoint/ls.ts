/** `shoal checkpoint ls`: the checkpoints of every job, newest first. */
import { isAbsolute } from 'node:path';
import { bytes, count, moment, table } from '../../../../base/text/format.js';
import { listCheckpoints } from '../../../../distributed/checkpoint/reading/catalog.js';
import { withEachStore } from '../../checkpoint/command.js';
import { type CheckpointSummary, summarize } from '../../checkpoint/health.js';
import type { ShoalContext } from '../../context.js';
import type { LsFlags } from './command.js';

export async function runLs(this: ShoalContext, flags: LsFlags): Promise<void> {
  await withEachStore(this, flags, async ({ signal, onNotice, answer }, stores) => {
    const found: CheckpointSummary[] = [];
    for (const open of stores) {
      for (const job of await open.jobs(signal)) {
        const manifests = await listCheckpoints(open.store, job, { signal, onNotice });
        for (const manifest of manifests) found.push(await summarize(open, job, manifest, { signal }));
      }
    }
    if (found.length === 0) for (const open of stores) await open.requireJob(signal);
    const labels = stores.map(({ label }) => `${label} has no checkpoints`);
    answer(found, () => (found.length === 0 ? labels : lines(found)));
  });
}

function lines(found: readonly CheckpointSummary[]): readonly string[] {
  const isOneJob = new Set(found.map(({ job }) => job)).size === 1;
  const head = ['name', 'step', 'saved', 'size', 'shards', 'copies', 'where', 'health'];
  const rows = found.map((one) => [
    one.name,
    String(one.step),
    moment(one.savedAtMs),
    bytes(one.bytes),
    String(one.shards),
    `${one.copies}/${one.wanted}`,
    where(one),
    one.missing.length === 0 ? one.health : `${describeHealth(one)}: ${one.missing.join('; ')}`,
  ]);
  if (isOneJob) return [table(head, rows)];
  return [
    table(
      ['job', ...head],
      rows.map((row, i) => [found[i]!.job, ...row]),
    ),
  ];
}

const describeHealth = ({ health }: CheckpointSummary): string =>
  health === 'unavailable' ? 'its holders are not running' : health;

function where({ places }: CheckpointSummary): string {
  if (places.length === 0) return '-';
  const hosts = new Set(places.map(({ host }) => host));
  const isOnDisk = places.every(({ host }) => isAbsolute(host));
  const on = isOnDisk ? count(hosts.size, 'directory', 'directories') : count(hosts.size, 'host');
  return `${places.map(({ place }) => place).join(' ')} (${on})`;
}
