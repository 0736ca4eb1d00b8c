/**
 * The test files that `npm test` skips, as globs: it must finish within ten minutes on two cores. Everything else is in
 * the quick selection, which must keep at least one file of every kind of check: unit tests of every module, comparisons
 * with Python, real processes, kills, the command line, the lab.
 *
 * Directories of multi-process tests are slow except for the files in `!(…)`. Elsewhere a file is listed by name if it
 * uses more than about fifteen seconds of CPU time and other files cover its kind.
 */
export const SLOW_TESTS = [
  'test/cluster/!(shards-monitored).test.ts',
  'test/cli/!(cluster|commands).test.ts',
  'test/checkpoint/!(damage-matrix|save-faults|two-chiefs).test.ts',
  'test/docs/{guide,ports}.test.ts',
  'test/engines/{many-tasks,ports}.test.ts',
  'test/examples/!(quickstart).test.ts',
  'test/aarch64/**/*.test.ts',
  'test/ops-oracle/**/*.test.ts',
  'test/package/**/*.test.ts',
  'test/page/{browser,cluster,conditions}.test.ts',
  'test/saved-model/**/*.test.ts',
  'test/serving/publish-kills.test.ts',
  'test/serving/answers.test.ts',
  'test/train/**/*.test.ts',
  'test/formats/records.test.ts',
  'test/setup/setup.test.ts',
  'test/setup/test-summary.test.ts',
  'test/handles.test.ts',
  'test/onednn.test.ts',
  'lab/main.test.ts',
  'lab/hosts/hosts.test.ts',
  'lab/soak/fencing.test.ts',
  'bench/cluster/models.test.ts',
  'codegen/{protos,tensorflow1-names}.test.ts',
  'src/training/feature-column/oracle.test.ts',
  'src/app/job/graph/summaries.test.ts',
  'src/app/keras/{keras,oracle,several-outputs}.test.ts',
  'src/app/keras/{layers,training}/oracle.test.ts',
  'src/app/keras/saving/saving.test.ts',
  'src/app/serving/publish/{publish,two-phase}.test.ts',
  'src/app/serving/rest/large-requests.test.ts',
  'src/tensorflow/native/library/onednn.test.ts',
  'src/training/saved-model/{export,loading/load-large-model,loading/loader}.test.ts',
  'src/training/train/checkpoints/{retrying-saver,tensorflow-directory}.test.ts',
  'src/training/train/hooks/sync/sync-losses.test.ts',
  'src/training/train/sessions/{event-files,last-save,queue-loops}.test.ts',
];

/** Those of the slow files that are unit tests, see UNIT_TESTS. */
export const SLOW_UNIT_TESTS = [
  'src/tensorflow/graph/interop.test.ts',
  'src/tensorflow/gradients/coverage.test.ts',
  'src/tensorflow/gradients/ops/{arithmetic,arrays,control-flow,conv,diagonals,gather,linalg,matmul,nn,reductions,segment,sparse}.test.ts',
  'src/tensorflow/gradients/ops/math-*.test.ts',
  'src/tensorflow/gradients/native.test.ts',
  'src/training/input/dataset/datasets.test.ts',
  'src/training/input/queues/queues.test.ts',
  'src/tensorflow/layers/losses/losses.test.ts',
  'src/tensorflow/layers/metrics/metrics.test.ts',
  'src/tensorflow/optimizers/sync/ordered-shares.test.ts',
];

/**
 * The tests of these modules run in few processes, many files in each: they leave nothing behind that the next file would
 * notice, and a process of its own costs a file most of a second. Tests that count handles or memory are not among them.
 */
export const UNIT_TESTS = [
  'src/base/{bytes,errors,files,metrics,text}/**/*.test.ts',
  'src/tensorflow/{formats,gradients,graph,layers,lookup,ops,optimizers,summary,variables}/**/*.test.ts',
  'src/distributed/{checkpoint,store}/**/*.test.ts',
  'src/training/input/**/*.test.ts',
];

/**
 * `npm run test:pages`: runs every command of the pages in a fresh clone. Its jobs train at full speed for a quarter of an
 * hour, which would disturb every test beside it.
 */
export const PAGE_TESTS = ['test/docs/fresh-clone.test.ts'];
