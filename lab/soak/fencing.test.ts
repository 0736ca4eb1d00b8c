/** A chief that is stopped right before its commit, replaced, and continued: fencing keeps it from committing. */
import { expect, it } from 'vitest';
import { ClusterWatch } from '../cluster/cluster-watch.js';
import { FailoverCluster } from '../cluster/failover-cluster.js';
import { LINE } from '../cluster/failover-jobs.js';
import { CHIEF, TASKS } from '../cluster/failover-tasks.js';
import { runExperiment } from '../experiment.js';
import { Recorder } from './recorder.js';

/** The violations in the history of such a cluster. */
async function replacedChief(env: Readonly<Record<string, string>>): Promise<readonly string[]> {
  let violations: readonly string[] | undefined;
  const summary = await runExperiment(
    {
      name: 'replaced chief',
      description: '',
      async run(ctx) {
        const lab = await ctx.lab({ hosts: TASKS.length + 1 });
        const cluster = new FailoverCluster(ctx, lab, { ...LINE, env });
        const watch = new ClusterWatch(ctx, cluster);
        const recorder = new Recorder(cluster);
        const begun = Date.now();
        await cluster.startAll({ sync: false });
        await watch.trainsSince(begun);
        await watch.savesSince(begun);
        await cluster.hold({ task: CHIEF, point: 'checkpoint.manifest.before' });
        const successorAt = Date.now();
        const { host, process } = await cluster.startSuccessor(CHIEF);
        await watch.savesSince(successorAt);
        await host.thaw(process);
        await process.ended();
        const thawedAt = Date.now();
        await watch.trainsSince(thawedAt);
        await watch.savesSince(thawedAt);
        violations = recorder.violations();
      },
    },
    { report: () => {} },
  );
  expect(summary.failed).toEqual([]);
  return violations!;
}

it('with fencing the history is consistent', async () => {
  expect(await replacedChief({})).toEqual([]);
});

it('without fencing the checker reports the commit of the replaced chief', async () => {
  expect(await replacedChief({ LAB_WITHOUT_FENCING: '1' })).toContainEqual(
    expect.stringMatching(/accepted the checkpoint of step \d+ from chief \d+, after one from its successor/),
  );
});
