/** Chiefs that are stopped, replaced, and continued: fencing keeps them from changing anything. */
import { describe, expect, it } from 'vitest';
import { bundlePrograms } from '../cluster/bundle.js';
import { ClusterWatch } from '../cluster/cluster-watch.js';
import { FailoverCluster } from '../cluster/failover-cluster.js';
import { LINE } from '../cluster/failover-jobs.js';
import { CHIEF, TASKS } from '../cluster/failover-tasks.js';
import { runExperiment } from '../experiment.js';
import { Recorder } from './recorder.js';

/**
 * The violations in the history of a cluster whose chief is stopped at a point, replaced, and continued when its
 * successor has saved.
 */
async function replacedChief(
  point: string,
  env: Readonly<Record<string, string>> = {},
): Promise<readonly string[]> {
  let violations: readonly string[] | undefined;
  const summary = await runExperiment(
    {
      name: 'replaced chief',
      description: '',
      async run(ctx) {
        const lab = await ctx.lab({ hosts: TASKS.length + 1 });
        await using bundle = await bundlePrograms([LINE.program]);
        const cluster = new FailoverCluster(ctx, lab, { ...LINE, env }, bundle);
        const watch = new ClusterWatch(ctx, cluster);
        const recorder = new Recorder(cluster);
        const begun = Date.now();
        if (isOfStart(point)) {
          await cluster.startAll({ sync: false }, { task: CHIEF, point });
          await cluster.held(CHIEF);
        } else {
          await cluster.startAll({ sync: false });
          await watch.trainsSince(begun);
          await watch.savesSince(begun);
          await cluster.hold({ task: CHIEF, point });
        }
        const successorAt = Date.now();
        const former = await cluster.startSuccessor(CHIEF);
        await watch.savesSince(successorAt);
        await cluster.continueFormer(former);
        await former.process.ended();
        const continuedAt = Date.now();
        await watch.trainsSince(continuedAt);
        await watch.savesSince(continuedAt);
        violations = recorder.violations();
      },
    },
    { report: () => {} },
  );
  expect(summary.failed).toEqual([]);
  return violations!;
}

const isOfStart = (point: string) => point.includes('#');
const WITHOUT = { LAB_WITHOUT_FENCING: '1' };

describe('a chief that is replaced right before its commit', () => {
  const point = 'checkpoint.manifest.before';

  it('does not commit', async () => {
    expect(await replacedChief(point)).toEqual([]);
  });

  it('commits without fencing, and the checker reports it', async () => {
    expect(await replacedChief(point, WITHOUT)).toContainEqual(
      expect.stringMatching(
        /accepted the checkpoint of step \d+ from chief \d+, after one from its successor/,
      ),
    );
  });
});

describe('a chief that is replaced right before it initializes the variables', () => {
  const point = 'lab.initialize#1';

  it('does not initialize them again', async () => {
    expect(await replacedChief(point)).toEqual([]);
  });

  it('initializes them without fencing, and the checker reports it', async () => {
    const violations = await replacedChief(point, WITHOUT);
    expect(violations).toContainEqual(
      expect.stringMatching(
        /ps \d executed a run of .*worker.task:0, incarnation \d+, after one of its successor/,
      ),
    );
    expect(violations).toContainEqual(
      expect.stringMatching(/went back from step \d+ to \d+ without a restore/),
    );
  });
});
