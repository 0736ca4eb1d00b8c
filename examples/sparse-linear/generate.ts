/**
 * Generates TFRecord files for the sparse linear model:
 *
 *   npx tsx examples/sparse-linear/generate.ts --out data --records 1000000 --files 8 --features 30000000
 */
import { parseArgs } from 'node:util';
import { writeSparseExamples } from './sparse-examples.js';

const { values } = parseArgs({
  options: {
    out: { type: 'string', default: 'data' },
    prefix: { type: 'string', default: 'train' },
    records: { type: 'string', default: '100000' },
    files: { type: 'string', default: '4' },
    features: { type: 'string', default: '1000000' },
    ids: { type: 'string', default: '50' },
    exponent: { type: 'string', default: '1.05' },
    seed: { type: 'string', default: '1' },
    gzip: { type: 'boolean', default: false },
  },
});

const started = performance.now();
const paths = await writeSparseExamples({
  directory: values.out,
  prefix: values.prefix,
  records: Number(values.records),
  files: Number(values.files),
  features: Number(values.features),
  idsPerRecord: Number(values.ids),
  exponent: Number(values.exponent),
  seed: Number(values.seed),
  compression: values.gzip ? 'gzip' : 'none',
  onProgress: (records) => {
    if (process.stderr.isTTY) process.stderr.write(`\r${records} records`);
  },
});
if (process.stderr.isTTY) process.stderr.write('\r');
const seconds = (performance.now() - started) / 1000;
console.log(`${values.records} records in ${paths.length} files of ${values.out}, ${seconds.toFixed(1)} s`);
