/** The order of test files: those that take minutes begin first, so that no worker is left alone with one at the end. */
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** A fresh clone has no durations of earlier runs, by which vitest would order the files. */
export const LONG_TESTS = [
  'test/saved-model/cluster-export-faults.test.ts',
  'test/cluster/shards-exactly-once.test.ts',
  'test/cluster/monitored.test.ts',
  'test/cli/gather.test.ts',
  'test/checkpoint/crash-matrix.test.ts',
  'test/checkpoint/late-holders.test.ts',
  'test/cluster/sync-deterministic.test.ts',
  'test/cluster/replaced-processes.test.ts',
  'test/cluster/full-disk.test.ts',
  'src/distributed/cluster/task/cluster-task.test.ts',
  'test/cli/cluster.test.ts',
  'test/cluster/shards-monitored.test.ts',
  'lab/soak/fencing.test.ts',
  'lab/soak/soak.test.ts',
  'src/training/train/hooks/sync/sync-losses.test.ts',
];

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rest = await super.sort(files);
    const long = LONG_TESTS.flatMap((name) => rest.filter(({ moduleId }) => moduleId.endsWith(`/${name}`)));
    return [...long, ...rest.filter((file) => !long.includes(file))];
  }
}
