// Calls a signature without a server: {"model", "rows", "inFlight", "seconds"} → {"value": runs per second}.
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { Tensor } from '../../../dist/index.js';
import { loadSavedModel } from '../../../dist/training/saved-model/index.js';

const { directory } = JSON.parse(process.env.BENCH);
const make = {
  softmax: (rows) => ({ images: Tensor.of(new Float32Array(rows * 784).fill(0.5), { shape: [rows, 784] }) }),
  embedding: (rows) => ({ ids: Tensor.of(new BigInt64Array(rows * 20).fill(7n), { shape: [rows, 20] }) }),
};
const loaded = {};

for await (const line of createInterface({ input: process.stdin })) {
  const { model, rows, inFlight, seconds } = JSON.parse(line);
  loaded[model] ??= await loadSavedModel(join(directory, model, '1'));
  const run = loaded[model].signatures.serving_default;
  const inputs = make[model](rows);
  const start = performance.now();
  let count = 0;
  const loop = async () => {
    for (; performance.now() - start < seconds * 1000; count++) await run(inputs);
  };
  await Promise.all(Array.from({ length: inFlight }, loop));
  console.log(JSON.stringify({ value: (count * 1000) / (performance.now() - start) }));
}
