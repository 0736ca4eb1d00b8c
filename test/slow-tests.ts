/**
 * The test files that `npm test` leaves out, as globs: it is to answer within ten minutes on two cores. Everything else is
 * in the quick selection, which must keep at least one file of every kind of check: unit tests of every module, Python
 * as the judge, real processes, kills, the command line, the lab.
 *
 * The folders of multi-process tests are slow but for the files that are named in `!(…)`. Elsewhere a file that takes
 * more than about ten seconds on an idle machine, and whose kind others represent, is listed by its name.
 */
export const SLOW_TESTS = [
  'test/cluster/!(dead-ps|shards-monitored).test.ts',
  'test/cli/!(cluster|commands|jobs).test.ts',
  'test/checkpoint/!(damage-matrix|save-faults).test.ts',
  'test/onednn.test.ts',
];
