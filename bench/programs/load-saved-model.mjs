// Loads a SavedModel and predicts once: {"dir"} → {"ms", "first"}.
import { createInterface } from 'node:readline';
import { library } from '../../dist/tensorflow/native/library/library.js';
import { loadSavedModel } from '../../dist/training/saved-model/index.js';

// Otherwise the first model would load TensorFlow, which Python's import has done.
library();

for await (const line of createInterface({ input: process.stdin })) {
  const start = performance.now();
  const model = await loadSavedModel(JSON.parse(line).dir);
  const { y } = await model.signatures.serving_default({ row: 0 });
  const ms = performance.now() - start;
  console.log(JSON.stringify({ ms, first: y.toArray()[0][0] }));
  await model[Symbol.asyncDispose]();
}
