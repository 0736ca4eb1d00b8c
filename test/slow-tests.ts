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
  'test/checkpoint/!(damage-matrix|save-faults).test.ts',
  'test/docs/{guide,ports}.test.ts',
  'test/engines/{many-tasks,ports}.test.ts',
  'test/examples/!(quickstart).test.ts',
  'test/aarch64/**/*.test.ts',
  'test/ops-oracle/**/*.test.ts',
  'test/package/**/*.test.ts',
  'test/saved-model/**/*.test.ts',
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
  'src/job/summaries.test.ts',
  'src/keras/{oracle,several-outputs}.test.ts',
  'src/native/onednn.test.ts',
  'src/saved-model/{export,load-large-model,loader}.test.ts',
  'src/train/checkpoints/tensorflow-directory.test.ts',
  'src/train/sessions/{event-files,last-save,queue-loops}.test.ts',
];

/** Those of the slow files that are unit tests, see UNIT_TESTS. */
export const SLOW_UNIT_TESTS = [
  'src/graph/interop.test.ts',
  'src/gradients/coverage.test.ts',
  'src/gradients/ops/{arithmetic,arrays,control-flow,conv,diagonals,gather,linalg,matmul,nn,reductions,segment,sparse}.test.ts',
  'src/gradients/ops/math-*.test.ts',
  'src/gradients/native.test.ts',
  'src/input/dataset/datasets.test.ts',
  'src/input/queues/queues.test.ts',
  'src/layers/losses/losses.test.ts',
  'src/layers/metrics/metrics.test.ts',
  'src/optimizers/ordered-shares.test.ts',
];

/**
 * The tests of these modules run in few processes, many files in each: they leave nothing behind that the next file would
 * notice, and a process of its own costs a file most of a second. Tests that count handles or memory are not among them.
 */
export const UNIT_TESTS = [
  'src/{bytes,checkpoint,errors,files,formats,gradients,graph,input,layers,lookup,metrics,ops}/**/*.test.ts',
  'src/{optimizers,store,summary,text,variables}/**/*.test.ts',
];

/**
 * `npm run test:pages`: runs every command of the pages in a fresh clone. Its jobs train at full speed for a quarter of an
 * hour, which would disturb every test beside it.
 */
export const PAGE_TESTS = ['test/docs/fresh-clone.test.ts'];
